//! Where statements end in what is typed or piped.
//!
//! Owns: quotes and comments, as far as a `;` may be in them. Promises: statements come out in their order, without the
//! `;`, each with the line that it begins in; what has no word is none. Must not: know more of SQL.

/// A statement and where it begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) text: String,
    /// From 1.
    pub(super) line: usize,
}

/// What was read and is not over.
#[derive(Debug, Default)]
pub(super) struct Statements {
    held: String,
    place: Place,
    lines: usize,
    /// Where it begins; `None` = there was no word yet.
    began: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Open,
    Quoted(char),
    Comment,
}

impl Statements {
    /// Whether a statement has begun.
    pub(super) fn is_open(&self) -> bool {
        self.began.is_some()
    }

    /// The statements that end in a line; `None` = there is no further line, which ends the last one.
    pub(super) fn add(&mut self, line: Option<&str>) -> Vec<Statement> {
        let Some(line) = line else {
            return self.end().into_iter().collect();
        };
        self.lines += 1;
        let mut ended = Vec::new();
        let mut letters = line.chars();
        while let Some(at) = letters.next() {
            let rest = letters.as_str();
            let mut escapes = false;
            match (self.place, at) {
                (Place::Open, ';') => {
                    ended.extend(self.end());
                    continue;
                }
                (Place::Open, '#') => break,
                (Place::Open, '-') if rest == "-" || rest.starts_with("- ") => break,
                (Place::Open, '/') if rest.starts_with('*') => self.place = Place::Comment,
                (Place::Comment, '*') if rest.starts_with('/') => {
                    self.place = Place::Open;
                    self.held.push_str("*/");
                    letters.next();
                    continue;
                }
                (Place::Open, '\'' | '"' | '`') => self.place = Place::Quoted(at),
                (Place::Quoted(quote), _) if at == quote => self.place = Place::Open,
                (Place::Quoted(quote), '\\') => escapes = quote != '`',
                _ => {}
            }
            if self.place != Place::Comment && !at.is_whitespace() {
                self.began.get_or_insert(self.lines);
            }
            self.held.push(at);
            if escapes {
                self.held.extend(letters.next());
            }
        }
        match self.began {
            // Lines count from the one with the first word.
            None if self.place == Place::Open => self.held.clear(),
            _ => self.held.push('\n'),
        }
        ended
    }

    fn end(&mut self) -> Option<Statement> {
        let text = std::mem::take(&mut self.held);
        self.place = Place::Open;
        let line = self.began.take()?;
        Some(Statement {
            text: text.trim().to_owned(),
            line,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(String, usize)> {
        let mut statements = Statements::default();
        let lines = text.lines().map(Some).chain([None]);
        let found = lines.flat_map(|line| statements.add(line));
        found.map(|found| (found.text, found.line)).collect()
    }

    #[test]
    fn statements_end_at_a_semicolon_that_is_in_no_text_and_no_comment() {
        for (text, expected) in [
            ("select 1", &[("select 1", 1)][..]),
            ("a;b ; c", &[("a", 1), ("b", 1), ("c", 1)]),
            (";; ;\n", &[]),
            ("\n-- one; two\n # three;\na\n;", &[("a", 4)]),
            (
                "a 'x;' \"y;\" `z;`; b",
                &[("a 'x;' \"y;\" `z;`", 1), ("b", 1)],
            ),
            (r"a 'it\'s; \\'; b", &[(r"a 'it\'s; \\'", 1), ("b", 1)]),
            ("a 'it''s;'; b", &[("a 'it''s;'", 1), ("b", 1)]),
            ("a `\\`; b", &[("a `\\`", 1), ("b", 1)]),
            ("a\n -- no; more\nb;c", &[("a\n \nb", 1), ("c", 3)]),
            (
                "a /* ; */ b; /* c;\n; */ d",
                &[("a /* ; */ b", 1), ("/* c;\n; */ d", 2)],
            ),
            ("5--3; -", &[("5--3", 1), ("-", 1)]),
            ("'no end;\n", &[("'no end;", 1)]),
        ] {
            let found = of(text);
            let found: Vec<_> = found.iter().map(|(text, line)| (&**text, *line)).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
