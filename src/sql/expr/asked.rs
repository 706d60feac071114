//! Conditions that only a search index can tell.
//!
//! Owns: TEXT_MATCH, TEXT_MATCH_PHRASE and ARRAY_EXTRACT. Promises: anywhere but where an index is asked they are
//! refused. Must not: know which index; `plan/index.rs` does.

use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, FunctionArguments};

use super::typed::long;
use super::{Comparison, Compiler, Expr, ONLY_OF_INDEX, OfIndex, Typed};
use crate::refusal::Refusal;

impl Compiler<'_> {
    /// A condition that only a search index can tell.
    pub(super) fn of_index(
        &mut self,
        name: &str,
        trees: &[&ast::Expr],
        depth: usize,
    ) -> Result<Option<OfIndex>, Refusal> {
        match name {
            "nested_query" | "vector_query_float32" | "score" | "array_extract"
                if !self.asks_index =>
            {
                return Refusal::unsupported(format!("{} here", name.to_uppercase()));
            }
            "nested_query" | "vector_query_float32" | "score" => {
                return Refusal::unsupported(name.to_uppercase());
            }
            "array_extract" => {
                return Refusal::unsupported("ARRAY_EXTRACT that is not compared with a constant");
            }
            "text_match" | "text_match_phrase" if !self.asks_index => {
                return Refusal::unsupported(ONLY_OF_INDEX);
            }
            "text_match" | "text_match_phrase" => {}
            _ => return Ok(None),
        }
        let upper = name.to_uppercase();
        let most = if name == "text_match" { 3 } else { 2 };
        if !(2..=most).contains(&trees.len()) {
            return Refusal::invalid(format!("{upper} has a column and a text"));
        }
        let Expr::Column(slot) = self.at(trees[0], depth)?.expr else {
            return Refusal::unsupported(ONLY_OF_INDEX);
        };
        let text = self
            .constant_text(trees[1], &upper, depth)?
            .unwrap_or_default();
        if name == "text_match_phrase" {
            return Ok(Some(OfIndex::Phrase(slot, text)));
        }
        let options = match trees.get(2) {
            Some(tree) => self.constant_text(tree, &upper, depth)?.unwrap_or_default(),
            None => String::new(),
        };
        let (mut is_and, mut minimum) = (false, None);
        let bad = || Refusal::Invalid(format!("{upper} can't have the options '{options}'"));
        for option in options
            .split([',', ';', '&'])
            .map(str::trim)
            .filter(|one| !one.is_empty())
        {
            let (name, value) = option.split_once('=').ok_or_else(bad)?;
            let value = value.trim();
            match name.trim() {
                "operator" if value.eq_ignore_ascii_case("and") => is_and = true,
                "operator" if value.eq_ignore_ascii_case("or") => is_and = false,
                "minimum_should_match" => minimum = Some(value.parse().map_err(|_| bad())?),
                _ => return Err(bad()),
            }
        }
        Ok(Some(OfIndex::Match(slot, text, is_and, minimum)))
    }

    /// `ARRAY_EXTRACT(column)` compared with a constant.
    pub(super) fn element(
        &mut self,
        left: &ast::Expr,
        how: Comparison,
        right: &ast::Expr,
        depth: usize,
    ) -> Result<Option<Typed>, Refusal> {
        let (array, value, how) = match (array_of(left), array_of(right)) {
            (Some(array), None) => (array, right, how),
            (None, Some(array)) => (array, left, how.turned()),
            _ => return Ok(None),
        };
        if !self.asks_index {
            return Refusal::unsupported("ARRAY_EXTRACT here");
        }
        match (self.at(array, depth)?.expr, self.at(value, depth)?.expr) {
            (Expr::Column(slot), Expr::Constant(value)) if how != Comparison::NotEqual => Ok(Some(
                long(Expr::OfIndex(OfIndex::Element(slot, how, value))),
            )),
            _ => Refusal::unsupported("ARRAY_EXTRACT that is not compared with a constant"),
        }
    }
}

fn array_of(tree: &ast::Expr) -> Option<&ast::Expr> {
    let ast::Expr::Function(function) = tree else {
        return None;
    };
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    match &list.args[..] {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(array))]
            if function
                .name
                .to_string()
                .eq_ignore_ascii_case("array_extract") =>
        {
            Some(array)
        }
        _ => None,
    }
}
