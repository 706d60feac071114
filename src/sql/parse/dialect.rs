//! How statements are read: as sqlparser reads MySQL's, but for two operators.
//!
//! Owns: XOR, which binds looser than AND and tighter than OR, and `a MOD b`. Promises: whatever sqlparser's own
//! dialect of MySQL decides is decided by it. Must not: know which statements there are.

use std::any::TypeId;

use sqlparser::ast::{BinaryOperator, Expr, Statement};
use sqlparser::dialect::{BindPlaceholderStyle, Dialect, MySqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

/// See the top.
#[derive(Debug)]
pub(super) struct OurDialect;

/// Sqlparser's own.
const MYSQL: MySqlDialect = MySqlDialect {};

/// Methods that answer as those of sqlparser's dialect: all that it has of its own.
macro_rules! as_mysql {
    ($($name:ident($($given:ident: $kind:ty),*) -> $answer:ty;)*) => {
        $(fn $name(&self, $($given: $kind),*) -> $answer {
            MYSQL.$name($($given),*)
        })*
    };
}

impl Dialect for OurDialect {
    /// Where the parser asks for a dialect by its type, it is MySQL's.
    fn dialect(&self) -> TypeId {
        TypeId::of::<MySqlDialect>()
    }

    fn prec_value(&self, of: Precedence) -> u8 {
        let value = |of| MYSQL.prec_value(of);
        match of {
            Precedence::Xor => u8::midpoint(value(Precedence::Or), value(Precedence::And)),
            other => value(other),
        }
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        match &parser.peek_token_ref().token {
            Token::Word(word) if word.keyword == Keyword::MOD => {
                Some(Ok(self.prec_value(Precedence::MulDivModOp)))
            }
            _ => MYSQL.get_next_precedence(parser),
        }
    }

    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        left: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        if !parser.parse_keyword(Keyword::MOD) {
            return MYSQL.parse_infix(parser, left, precedence);
        }
        let right = parser.parse_subexpr(precedence);
        Some(right.map(|right| Expr::BinaryOp {
            left: Box::new(left.clone()),
            op: BinaryOperator::Modulo,
            right: Box::new(right),
        }))
    }

    as_mysql! {
        identifier_quote_style(identifier: &str) -> Option<char>;
        ignores_wildcard_escapes() -> bool;
        is_delimited_identifier_start(ch: char) -> bool;
        is_identifier_part(ch: char) -> bool;
        is_identifier_start(ch: char) -> bool;
        is_table_factor_alias(explicit: bool, kw: &Keyword, parser: &mut Parser<'_>) -> bool;
        ordered_bind_placeholder_style() -> Option<BindPlaceholderStyle>;
        parse_statement(parser: &mut Parser<'_>) -> Option<Result<Statement, ParserError>>;
        require_interval_qualifier() -> bool;
        requires_single_line_comment_whitespace() -> bool;
        supports_alter_column_position() -> bool;
        supports_binary_kw_as_cast() -> bool;
        supports_bitwise_shift_operators() -> bool;
        supports_comma_separated_set_assignments() -> bool;
        supports_comment_optimizer_hint() -> bool;
        supports_constraint_keyword_without_name() -> bool;
        supports_create_table_select() -> bool;
        supports_cross_join_constraint() -> bool;
        supports_data_type_signed_suffix() -> bool;
        supports_data_type_zerofill_suffix() -> bool;
        supports_double_ampersand_operator() -> bool;
        supports_group_by_with_modifier() -> bool;
        supports_hash_comment() -> bool;
        supports_insert_set() -> bool;
        supports_key_column_option() -> bool;
        supports_left_associative_joins_without_parens() -> bool;
        supports_limit_comma() -> bool;
        supports_literal_prefix_in_qualified_name() -> bool;
        supports_match_against() -> bool;
        supports_multiline_comment_hints() -> bool;
        supports_numeric_prefix() -> bool;
        supports_select_modifiers() -> bool;
        supports_set_names() -> bool;
        supports_singular_value_keyword() -> bool;
        supports_string_literal_backslash_escape() -> bool;
        supports_string_literal_concatenation() -> bool;
        supports_string_literal_table_alias(explicit: bool) -> bool;
        supports_table_hints() -> bool;
        supports_table_partitions() -> bool;
        supports_update_order_by() -> bool;
        supports_user_host_grantee() -> bool;
    }
}
