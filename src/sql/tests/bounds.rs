//! Statements that are small and ask for much, and clauses that would be passed over.
//!
//! Owns: these. Promises: none takes long where it is refused as it should be. Must not: need a server.

use std::time::{Duration, Instant};

use tideline_model::ColumnType::{Double, Integer, String as Text};
use tideline_model::search::{FieldType, InvalidSearch, SearchSchema};
use tideline_model::{Error, OptionsUpdate, TableUpdate};

use super::bed::Bed;
use super::statements::{field, filled};
use crate::Refusal;

/// A call that makes a text of so many MB.
fn large(megabytes: usize) -> String {
    let (from, to) = ("a".repeat(1_000), "b".repeat(megabytes * 1_000));
    format!("replace('{from}', 'a', '{to}')")
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_and_constants_are_counted_before_they_are_made() {
    let folder = tempfile::tempdir().unwrap();
    let bed = Bed::open(folder.path());
    filled(&bed).await;
    let nested = |name: &str, behind: &str| {
        let open = format!("{name}(").repeat(28);
        format!(
            "select {open}n{} from people",
            format!("{behind})").repeat(28)
        )
    };
    let four = large(4);
    let list = |what: &str, count: usize| vec![what; count].join(", ");
    for statement in [
        format!(
            "select 1 from people where n{}",
            " between 0 and 1".repeat(40)
        ),
        nested("nullif", ", 9"),
        nested("if(true, case ", " when 1 then 1 when 2 then 2 end, 0"),
        format!(
            "select {four} as a from people having a in ({})",
            list("a", 1_900)
        ),
        format!(
            "select {four} as a from people order by {}",
            list("a", 1_900)
        ),
        format!("select case {four}{} end", " when 1 then 1".repeat(300)),
        format!("select {}", list(&large(4), 50)),
        format!("select {}", list(&large(3).replace("'b", "name, 'b"), 1)),
    ] {
        // What is to be refused is refused soon, in little memory.
        let refused = bed.refused(&statement).await;
        let short: String = statement.chars().take(60).collect();
        assert!(
            matches!(refused, Refusal::Invalid(_) | Refusal::Memory(_)),
            "{short}: {refused:?}"
        );
    }
    // Of a row: 256 texts of 4 MB, which no constant is.
    let of_row = large(4).replace("'a',", "substring('aa', n, 1),");
    bed.run(&format!("select length({of_row}) from people where n = 1"))
        .await
        .unwrap();
    let wide = format!("select {} from (people)", list("n", 3));
    assert!(bed.run(&wide).await.is_err());
    let concat = format!(
        "select length(concat(a, a, a, a)) from people having ({of_row}) = 'x' or concat({}) = ''",
        list("name", 200)
    );
    assert!(bed.run(&concat).await.is_err());
    // A few copies are fine.
    for (statement, expected) in [
        (
            "select count(*) from people where n + 1 between 2 and 3 between 1 and 1",
            "4",
        ),
        (
            "select nullif(nullif(n, 1), 2) from people where town = 'a'",
            "NULL;NULL;3",
        ),
        (
            "select case n % 2 when 0 then 'even' when 1 then 'odd' end from people where town = 'a'",
            "odd;even;odd",
        ),
    ] {
        assert_eq!(bed.shown(statement).await, expected, "{statement}");
    }
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_ends_with_the_time_of_its_statement() {
    let folder = tempfile::tempdir().unwrap();
    let bed = Bed::open(folder.path());
    filled(&bed).await;
    let text = large(4).replace('b', "a");
    let pattern = format!("%{}b", "a".repeat(1_000));
    let constant = format!("select {text} like '{pattern}'");
    let of_row = text.replace("'a',", "substring('aa', n, 1),");
    let of_row = format!("select {of_row} like '{pattern}' from people where n = 1");
    for statement in [constant, of_row] {
        let began = Instant::now();
        let door = std::sync::Arc::new(crate::Open);
        let patience = Some(Duration::from_secs(1));
        let refused = bed.sql.run(door, &statement, patience).await;
        assert!(matches!(refused, Err(Refusal::Timeout(1))), "{refused:?}");
        // Its turn is free again: the others get theirs.
        assert_eq!(bed.shown("select 1").await, "1");
        assert!(began.elapsed() < Duration::from_secs(60));
    }
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_chains_are_answered_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bed = Bed::open(folder.path());
    filled(&bed).await;
    for (count, part) in [
        (1_900, " + 1"),
        (20_000, " + 1"),
        (900, " is null"),
        (600, "::char"),
        (900, " collate x"),
    ] {
        let chain = part.repeat(count);
        for statement in [
            format!("select 1{chain}"),
            format!("select 1{chain} as a"),
            format!("select count(1{chain}) as a from people group by 1{chain}"),
            format!("select n from people limit 1{chain}"),
            format!("update buys set who = 1{chain} where id = 1"),
            format!("explain select 1{chain}"),
            format!("select n from people order by 1{chain}"),
        ] {
            let short: String = statement.chars().take(40).collect();
            let refused = bed.refused(&statement).await;
            assert!(
                matches!(
                    refused,
                    Refusal::Invalid(_) | Refusal::Unsupported(_) | Refusal::Syntax { .. }
                ),
                "{short}: {refused:?}"
            );
        }
    }
    let chain = " and n = 1".repeat(400);
    let statement = format!("select count(*) from people where n = 1{chain}");
    assert_eq!(bed.shown(&statement).await, "3");
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_at_their_bounds_have_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    let bed = Bed::open(folder.path());
    filled(&bed).await;
    for (statement, expected) in [
        ("select date(9223372036854775807)", "NULL"),
        (
            "select date_add('2026-01-01', interval 9000000000000000000 month)",
            "NULL",
        ),
        (
            "select date_add('2026-01-01', interval 700000000000000000 year)",
            "NULL",
        ),
        ("select abs(true), abs(-2), abs('-2.5')", "1,2,2.5"),
        (
            "select round(5, 2.0), round(2.5, '0'), round('1.25', 1)",
            "5,3,1.3",
        ),
        (
            "select truncate(n, '1'), round(true), abs(ok) from people where name = 'Ann'",
            "1,1,1",
        ),
    ] {
        assert_eq!(bed.shown(statement).await, expected, "{statement}");
    }
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_says_what_the_table_says() {
    let folder = tempfile::tempdir().unwrap();
    let bed = Bed::open(folder.path());
    let columns = [
        ("k", Integer),
        ("word", Text),
        ("body", Text),
        ("size", Double),
    ];
    bed.create("t", 1, &columns).await;
    let long = "m".repeat(5_000);
    for statement in [
        "insert into t values (1, 'a', 'red fox', 5)".to_owned(),
        format!("insert into t values (2, '{long}', 'red', null)"),
        "insert into t values (3, 'mm', 'blue', 5)".to_owned(),
        "insert into t values (4, null, 'red', -0.0)".to_owned(),
    ] {
        bed.run(&statement).await.unwrap();
    }
    let schema = SearchSchema {
        fields: vec![
            field("word", FieldType::Keyword),
            field("body", FieldType::Text),
            field("size", FieldType::Double),
        ],
        ..SearchSchema::default()
    };
    let schema = schema.checked().unwrap();
    let made = bed
        .tables
        .create_search_index("t", "ix".to_owned(), schema, -1);
    made.await.unwrap();
    for (statement, expected) in [
        ("select k from t where word >= 'm'", "2;3"),
        ("select k from t where word like 'm%'", "2;3"),
        ("select count(*) from t where word < 'n'", "3"),
        ("select k from t where word = 'mm'", "3"),
        ("select k from t where word in ('a', 'mm')", "1;3"),
        ("select k from t where size = -9223372036854775808", ""),
        ("select k from t where not text_match(body, 'red')", "3"),
        ("select k from t where size = 0", "4"),
        ("select k from t where size in (0, 5)", "1;3;4"),
        ("select k from t where size >= 0.0", "1;3;4"),
        ("select count(*) from t where size > -0.0", "2"),
        ("select count(*) from t where size < 0", "0"),
        ("select count(*) from t where size <= 0", "1"),
    ] {
        assert_eq!(bed.shown(statement).await, expected, "{statement}");
    }
    let both = bed
        .refused("select k from t where not (text_match(body, 'red') and size = 5)")
        .await;
    assert!(matches!(both, Refusal::Unsupported(_)), "{both:?}");
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_whose_rows_go_before_those_of_the_table_is_passed_by() {
    let folder = tempfile::tempdir().unwrap();
    let bed = Bed::open(folder.path());
    filled(&bed).await;
    let options = OptionsUpdate {
        allow_update: Some(false),
        ..OptionsUpdate::default()
    };
    let update = TableUpdate {
        options,
        ..TableUpdate::default()
    };
    bed.tables.update("people", update).await.unwrap();
    let schema = SearchSchema {
        fields: vec![
            field("name", FieldType::Text),
            field("size", FieldType::Double),
        ],
        ..SearchSchema::default()
    };
    let schema = schema.checked().unwrap();
    let made = bed
        .tables
        .create_search_index("people", "ix".to_owned(), schema, 86_400);
    made.await.unwrap();
    bed.run("create table pix (town varchar(1024), n bigint, size double, primary key (town, n)) engine='searchindex', engine_attribute='{\"index_name\":\"ix\",\"table_name\":\"people\"}'").await.unwrap();
    for (statement, by_index) in [
        ("select town from people where size > 2", false),
        (
            "select town from people where text_match(name, 'lives')",
            true,
        ),
        ("select town from pix where size > 2", true),
    ] {
        let answer = bed.run(statement).await.unwrap();
        assert_eq!(answer.rows.len(), 2, "{statement}");
        assert_eq!(answer.scanned[0].index.is_some(), by_index, "{statement}");
    }
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_be_passed_over_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bed = Bed::open(folder.path());
    filled(&bed).await;
    for statement in [
        "select n from people partition (p)",
        "select n from people use index (ix)",
        "select n from people as p (a, b)",
        "select high_priority n from people",
        "delete from buys partition (p) where id = 1",
        "delete from buys as b where id = 1",
        "update buys partition (p) set who = 2 where id = 1",
        "insert into buys values (9, 1, 'x') limit 1",
        "insert high_priority into buys values (9, 1, 'x')",
    ] {
        let refused = bed.refused(statement).await;
        assert!(
            matches!(refused, Refusal::Unsupported(_) | Refusal::Syntax { .. }),
            "{statement}: {refused:?}"
        );
    }
    assert_eq!(bed.shown("select id, who from buys").await, "1,1;2,1;3,9");
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_means_one_table() {
    let folder = tempfile::tempdir().unwrap();
    let bed = Bed::open(folder.path());
    filled(&bed).await;
    let mapping = "engine='searchindex', engine_attribute='{\"index_name\":\"ix\",\"table_name\":\"people\"}'";
    let schema = SearchSchema {
        fields: vec![field("name", FieldType::Text)],
        ..SearchSchema::default()
    };
    let schema = schema.checked().unwrap();
    let made = bed
        .tables
        .create_search_index("people", "ix".to_owned(), schema, -1);
    made.await.unwrap();
    let make = |name: &str| {
        format!(
            "create table {name} (town varchar(1024), n bigint, primary key (town, n)) {mapping}"
        )
    };
    bed.run(&make("other")).await.unwrap();
    // Not a table of a mapping's name, and not a mapping of a table's name.
    assert!(bed.try_create("other").await.is_err());
    bed.refused(&make("buys")).await;
    bed.run("drop mapping table other").await.unwrap();
    bed.try_create("other").await.unwrap();
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_limit_of_a_statement_is_held() {
    let folder = tempfile::tempdir().unwrap();
    let bed = Bed::open(folder.path());
    filled(&bed).await;
    let tables = |count: usize| {
        let tables = (0..count).map(|at| format!("buys b{at}"));
        format!(
            "select count(*) from {} where b0.id = 1",
            tables.collect::<Vec<_>>().join(", ")
        )
    };
    let columns = |count: usize| format!("select {}", vec!["1"; count].join(", "));
    let like = |bytes: usize| format!("select 'a' like '{}'", "a".repeat(bytes));
    let rows = |count: usize| {
        let rows = (0..count).map(|at| format!("({at}, 1, 'x')"));
        let rows = rows.collect::<Vec<_>>().join(", ");
        format!("insert into people (n, size, town) values {rows}")
    };
    for (at, beyond, text) in [
        (tables(8), tables(9), "at most 8 tables"),
        (columns(1_024), columns(1_025), "at most 1024 columns"),
        (like(1_024), like(1_025), "at most 1024 bytes"),
        (rows(200), rows(201), "1 to 200 rows"),
        (
            format!("select length({})", large(4)),
            format!("select length({})", large(5)),
            "at most 4194304 bytes",
        ),
    ] {
        let done = bed.run(&at).await;
        assert!(done.is_ok(), "{text}: {:?}", done.err());
        let refused = bed.refused(&beyond).await.to_string();
        assert!(refused.contains(text), "{refused} has not {text}");
    }
    // Columns of a mapping, mappings and search indexes of one table.
    let columns = (2..980).map(|at| format!("c{at} bigint"));
    let columns = columns.collect::<Vec<_>>().join(", ");
    let mapping = format!(
        "create table people (town varchar(1024), n bigint, {columns}, primary key (town, n))"
    );
    bed.run(&mapping).await.unwrap();
    for at in 980..1_024 {
        let text = format!("alter table people add c{at} bigint");
        bed.run(&text).await.unwrap();
    }
    let refused = bed.refused("alter table people add c1024 bigint").await;
    assert!(refused.to_string().contains("1 to 1024 columns"));
    let schema = || {
        let fields = vec![field("name", FieldType::Keyword)];
        let schema = SearchSchema {
            fields,
            ..SearchSchema::default()
        };
        schema.checked().unwrap()
    };
    for at in 0..17 {
        let made = bed
            .tables
            .create_search_index("people", format!("i{at}"), schema(), -1);
        let made = made.await;
        let is_so = matches!(made, Err(Error::Search(InvalidSearch::IndexQuota(16))));
        assert_eq!(is_so, at == 16, "{made:?}");
    }
    // It has one of its own.
    for at in 1..17 {
        let text = format!(
            "create table m{at} (town varchar(1024), n bigint, primary key (town, n)) engine='searchindex', engine_attribute='{{\"index_name\":\"i1\",\"table_name\":\"people\"}}'"
        );
        let done = bed.run(&text).await;
        let refused = done.map_err(|refusal| refusal.to_string()).err();
        match at < 16 {
            true => assert_eq!(refused, None),
            false => assert!(refused.unwrap().contains("at most 16 mapping tables")),
        }
    }
    bed.close().await;
}
