//! One statement after the other, each with what it answers.
//!
//! Owns: that list. Promises: each answer is written out. Must not: need a server.

use std::sync::Arc;

use tideline_model::ColumnType::{Binary, Boolean, Double, Integer, String as Text};
use tideline_model::search::{Analyzer, Field, FieldType, SearchSchema};
use tideline_table::Table;

use super::bed::Bed;
use crate::{ColumnKind, Door, Need, Open, Refusal, Sql};

/// A table of people and one of what they bought.
pub(super) async fn filled(bed: &Bed) {
    let columns = [
        ("town", Text),
        ("n", Integer),
        ("name", Text),
        ("size", Double),
        ("ok", Boolean),
        ("tags", Text),
        ("raw", Binary),
    ];
    bed.create("people", 2, &columns).await;
    bed.create(
        "buys",
        1,
        &[("id", Integer), ("who", Integer), ("what", Text)],
    )
    .await;
    for statement in [
        "insert into people (town, n, name, size, ok) values ('a', 1, 'Ann', 1.5, true), ('a', 2, 'Bob', 2.5, false), ('a', 3, 'Cid', null, true)",
        "insert into people (town, n, name, size) values ('b', 1, 'Dan lives here', 4)",
        "insert into people (town, n, name, tags) values ('c', 1, 'here lives Eve', '[\"x\",\"y\"]')",
        "insert into buys values (1, 1, 'apple')",
        "insert into buys values (2, 1, 'pear')",
        "insert into buys values (3, 9, 'plum')",
    ] {
        bed.run(statement)
            .await
            .unwrap_or_else(|refusal| panic!("{statement}: {refusal:?}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_answer() {
    let folder = tempfile::tempdir().unwrap();
    let bed = Bed::open(folder.path());
    filled(&bed).await;
    for (statement, expected) in [
        (
            "select 1, 'a', 1/2, 7 div 2, 7 % 4, -3, null",
            "1,a,0.5,3,3,-3,NULL",
        ),
        (
            "select 1/0, 2 + '3x', '10' = 10, 1 = true, null <=> null, 1 xor 0",
            "NULL,5,1,1,1,1",
        ),
        (
            "select 2 = 1 xor 1, 1 or 1 xor 1, 1 xor 0 and 0, 3 between 1 and 2 xor 1, not 1 xor 1",
            "1,1,1,1,1",
        ),
        (
            "select 7 mod 4 + 1, 2 * 7 MOD 4, 9 - 7 mod 4, 7.5 mod 2, 1 mod 0, mod(7, 4), -7 mod 4",
            "4,2,6,1.5,NULL,3,-3",
        ),
        (
            "select concat('a', 1, 2.5), substring('hello', 2, 3), substr('hello', -3), upper('ä')",
            "a12.5,ell,llo,Ä",
        ),
        (
            "select length('ä'), char_length('ä'), trim('  x '), replace('aaa', 'a', 'bc'), locate('l', 'hello', 4)",
            "2,1,x,bcbcbc,4",
        ),
        (
            "select round(2.5), round(-2.5), round(1.256, 2), floor(-1.5), ceil(1.2), abs(-4), truncate(1.999, 2)",
            "3,-3,1.26,-2,2,4,1.99",
        ),
        (
            "select from_unixtime(1.5), unix_timestamp('1970-01-02'), date('2026-01-31 12:00:00'), time('2026-01-31 12:00:01')",
            "1970-01-01 00:00:01.500000,86400,2026-01-31,12:00:01",
        ),
        (
            "select timediff('12:00:00', '13:30:00'), date_format('2026-01-05 07:08:09', '%Y/%c/%e %H:%i:%s %W %j'), '2026-01-31' + interval 1 month",
            "-01:30:00,2026/1/5 07:08:09 Monday 005,2026-02-28 00:00:00",
        ),
        (
            "select if(1 > 2, 'a', 'b'), coalesce(null, 2, 3), ifnull(null, 'x'), nullif(1, 1), case 3 when 2 then 'two' when 3 then 'three' end",
            "b,2,x,NULL,three",
        ),
        (
            "select cast('12' as signed), cast(1.7 as signed), cast(3 as char), '{\"a\": {\"b\": [1, \"c\"]}}' ->> '$.a.b[1]'",
            "12,2,3,c",
        ),
        (
            "select cast('hello' as char(2)), cast(12.5 as char(3)), cast('ä€' as char(1)), cast(null as char(2)), convert('abc', char(2))",
            "he,12.,ä,NULL,ab",
        ),
        (
            "select cast(2.55 as decimal), cast(-2.5 as decimal(4)), cast(1.256 as decimal(5, 2)), cast(12345.6 as decimal(4, 1)), cast('7.25x' as decimal(3, 1)), cast(-0.2 as decimal)",
            "3,-3,1.26,999.9,7.3,0",
        ),
        (
            "select cast(3 as unsigned), cast('12' as unsigned integer), cast(from_unixtime(1.5) as datetime(6))",
            "3,12,1970-01-01 00:00:01.500000",
        ),
        (
            "select name, cast(size as decimal(3, 0)) from people where cast(name as char(1)) = 'B'",
            "Bob,3",
        ),
        (
            "select greatest(1, 2.5), least('b', 'a'), 5 in (1, 5), 5 not in (1, null), 3 between 1 and 3, 'abc' like 'a%', 'a_c' like 'a\\_c'",
            "2.5,a,1,NULL,1,1,1",
        ),
        ("select count(*) from people", "5"),
        ("select n from people", "1;2;3;1;1"),
        (
            "select n from people order by town desc, n desc",
            "1;1;3;2;1",
        ),
        (
            "select n from people where town = 'a' order by n desc limit 2",
            "3;2",
        ),
        ("select n from people where town = 'a' and n >= 2", "2;3"),
        (
            "select n from people where town = 'a' and n >= 2 order by n desc",
            "3;2",
        ),
        (
            "select town, n from people where town in ('a', 'b') and n >= 1 and n < 3 order by town desc, n desc",
            "b,1;a,2;a,1",
        ),
        (
            "select id from buys where id > 1 order by id desc limit 2",
            "3;2",
        ),
        (
            "select n from people where town = 'a' and n > 1 and n < 3",
            "2",
        ),
        (
            "select town, n from people where town in ('c', 'a') and n = 1",
            "a,1;c,1",
        ),
        (
            "select name from people where town like 'b%'",
            "Dan lives here",
        ),
        (
            "select name from people where size is null",
            "Cid;here lives Eve",
        ),
        ("select name from people where not ok", "Bob"),
        ("select name from people where ok = 1 and size <> 2", "Ann"),
        (
            "select name, size * 2 as twice from people where size > 1 order by twice desc limit 1, 1",
            "Bob,5",
        ),
        (
            "select town, count(*), sum(size), avg(size), min(name), max(n) from people group by town",
            "a,3,4,2,Ann,3;b,1,4,4,Dan lives here,1;c,1,NULL,NULL,here lives Eve,1",
        ),
        (
            "select town, count(size) as c from people group by town having c > 0 order by c desc, town desc",
            "a,2;b,1",
        ),
        (
            "select count(distinct n), count(ok), count(distinct town, n) from people",
            "3,3,5",
        ),
        ("select distinct n from people order by n desc", "3;2;1"),
        (
            "select length(name) l, count(*) from people group by l order by 1",
            "3,3;14,2",
        ),
        (
            "select count(*), sum(size), max(name) from people where n > 100",
            "0,NULL,NULL",
        ),
        (
            "select town from people group by 1 having count(*) > 1",
            "a",
        ),
        (
            "select p.name, b.what from people p join buys b on p.n = b.who where p.town = 'a'",
            "Ann,apple;Ann,pear",
        ),
        (
            "select x.town, m + 1 from (select town, count(*) as m, max(n) from people group by town order by m desc limit 2) as x where m > 1 or town = 'b' order by 1",
            "a,4;b,2",
        ),
        (
            "select b.what, x.name, x.`max(n)` from buys b left join (select name, n, max(n) from people where n < 3 group by name, n) x on x.n = b.id + 1 order by b.id",
            "apple,Bob,2;pear,NULL,NULL;plum,NULL,NULL",
        ),
        (
            "select datediff(d, '2026-01-01'), x.d from (select date('2026-01-31') as d) x",
            "30,2026-01-31",
        ),
        (
            "select distinctrow who from (select * from (select * from buys where id < 3) y) x",
            "1",
        ),
        (
            "select * from buys c right join buys b on b.id = c.id + 1 and c.who = 1 where b.id > 1 order by b.id",
            "1,1,apple,2,1,pear;2,1,pear,3,9,plum",
        ),
        (
            "select c.what, b.id, p.town from buys c right join buys b on b.id = c.id - 1 and c.id > 2 left join people p on p.n = b.id and p.name = 'Bob'",
            "NULL,1,NULL;plum,2,a;NULL,3,NULL",
        ),
        (
            "select b.id, p.name from buys b left join people p on p.n = b.who and p.town = 'b' order by b.id",
            "1,Dan lives here;2,Dan lives here;3,NULL",
        ),
        ("select count(*) from people, buys", "15"),
        (
            "select b.id from buys b, people p where p.n = b.who and p.name = 'Ann'",
            "1;2",
        ),
        ("show tables like 'b%'", "buys"),
        (
            "describe buys",
            "id,bigint(20),NO,PRI,NULL,;who,bigint(20),YES,,NULL,;what,mediumtext,YES,,NULL,",
        ),
    ] {
        assert_eq!(bed.shown(statement).await, expected, "{statement}");
    }
    let answer = bed
        .run("select n,  n +1, `n`, p.n, count( *) from people p group by n")
        .await;
    let answer = answer.unwrap();
    let names: Vec<&str> = answer
        .columns
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    assert_eq!(names, ["n", "n +1", "n", "n", "count( *)"]);
    assert_eq!(answer.columns[4].kind, ColumnKind::Long);
    assert_eq!(
        (answer.scanned[0].rows, answer.scanned[0].consumed.read > 0),
        (5, true)
    );
    // A row alone is read where a key is named.
    let answer = bed
        .run("select name from people where n = 2 and town = 'a' and ok = false")
        .await;
    assert_eq!(answer.unwrap().scanned[0].rows, 1);
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_and_mappings() {
    let folder = tempfile::tempdir().unwrap();
    let bed = Bed::open(folder.path());
    filled(&bed).await;
    let affected = async |statement: &str| bed.run(statement).await.unwrap().affected;
    assert_eq!(
        bed.refused("insert into buys values (1, 2, 'x')").await,
        Refusal::RowExists
    );
    let mixed = "insert into people (town, n, name) values ('z', 1, 'new'), ('z', 2, 'new'), ('z', 1, 'again')";
    bed.refused(mixed).await;
    assert_eq!(
        bed.shown("select count(*) from people where town = 'z'")
            .await,
        "0"
    );
    assert_eq!(
        affected("update buys set who = who + 4, what = 'fig' where id = 1").await,
        1
    );
    assert_eq!(
        bed.shown("select who, what from buys where id = 1").await,
        "5,fig"
    );
    assert_eq!(
        affected("update buys set what = null where 1 = id").await,
        1
    );
    assert_eq!(
        bed.shown("select * from buys where id = 1").await,
        "1,5,NULL"
    );
    assert_eq!(
        affected("update buys set what = 'x' where id = 77").await,
        0
    );
    assert_eq!(affected("delete from buys where id = 2").await, 1);
    assert_eq!(affected("delete from buys where id = 2").await, 0);
    for statement in [
        "delete from buys",
        "delete from buys where id > 1",
        "delete from people where town = 'a'",
        "update buys set id = 4 where id = 1",
        "update buys set who = 'x' where id = 1",
        "update buys set who = id where id = 1",
        "insert into buys (who) values (1)",
        "insert into buys (id, who) values (1)",
        "insert into buys select 1, 2, 'x'",
    ] {
        bed.refused(statement).await;
    }
    let none = bed.refused("select x from buys").await;
    assert_eq!(none, Refusal::Invalid("Unknown column 'x'".to_owned()));
    bed.run("create table buys (id bigint primary key, who bigint not null) engine='tablestore', engine_attribute='{\"consistency\":\"strong\"}'").await.unwrap();
    assert_eq!(bed.shown("select * from buys").await, "1,5;3,9");
    bed.refused("create table buys (id bigint primary key)")
        .await;
    bed.run("create table if not exists buys (id bigint primary key)")
        .await
        .unwrap();
    bed.run("alter table buys add column what mediumtext")
        .await
        .unwrap();
    assert_eq!(
        bed.shown("select what from buys where id = 3").await,
        "plum"
    );
    bed.run("alter table buys drop column who bigint")
        .await
        .unwrap();
    assert_eq!(
        bed.shown("show full columns from buys like 'w%'").await,
        "what,mediumtext,NULL,YES,,NULL,,select,insert,update,"
    );
    bed.refused("alter table buys drop column id").await;
    bed.run("drop mapping table buys;").await.unwrap();
    bed.run("drop mapping table buys").await.unwrap();
    assert_eq!(bed.shown("select who from buys where id = 3").await, "9");
    for statement in [
        "create table buys (id varchar(1024) primary key)",
        "create table buys (who bigint)",
        "create table nothing (id bigint primary key)",
        "create table people (n bigint, town varchar(1024), primary key (n, town))",
        "drop mapping table nothing",
    ] {
        bed.refused(statement).await;
    }
    assert_eq!(
        bed.refused("select * from nothing").await,
        Refusal::NoTable("nothing".to_owned())
    );
    bed.close().await;
}

pub(super) fn field(name: &str, kind: FieldType) -> Field {
    Field {
        is_array: name == "tags",
        analyzer: (kind == FieldType::Text).then(Analyzer::default),
        ..Field::new(name, kind)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_leads_to_rows() {
    let folder = tempfile::tempdir().unwrap();
    let bed = Bed::open(folder.path());
    filled(&bed).await;
    bed.refused("select n from people where text_match(name, 'lives')")
        .await;
    let fields = vec![
        field("name", FieldType::Text),
        field("size", FieldType::Double),
        field("ok", FieldType::Boolean),
        field("tags", FieldType::Keyword),
    ];
    let schema = SearchSchema {
        fields,
        ..SearchSchema::default()
    };
    let made =
        bed.tables
            .create_search_index("people", "ix".to_owned(), schema.checked().unwrap(), -1);
    made.await.unwrap();
    for (statement, expected, by_index) in [
        (
            "select town from people where text_match(name, 'lives')",
            "b;c",
            true,
        ),
        (
            "select town from people where text_match(name, 'dan eve', 'operator=and')",
            "",
            true,
        ),
        (
            "select town from people where text_match(name, 'dan eve')",
            "b;c",
            true,
        ),
        (
            "select town from people where text_match_phrase(name, 'lives here')",
            "b",
            true,
        ),
        (
            "select town from people where text_match(name, 'lives') and size > 1",
            "b",
            true,
        ),
        (
            "select town from people where text_match(name, 'eve') or size = 4 order by town desc",
            "c;b",
            true,
        ),
        (
            "select town from people where array_extract(tags) = 'y'",
            "c",
            true,
        ),
        (
            "select name from people where size >= 2.5",
            "Bob;Dan lives here",
            true,
        ),
        ("select n from people where size is null", "3;1", true),
        ("select count(*) from people where ok = true", "2", true),
        ("select count(*) from people", "5", true),
        (
            "select name from people where town = 'a' and size >= 2.5",
            "Bob",
            false,
        ),
        (
            "select count(raw) from people where size >= 2.5",
            "0",
            false,
        ),
    ] {
        assert_eq!(bed.shown(statement).await, expected, "{statement}");
        let answer = bed.run(statement).await.unwrap();
        assert_eq!(answer.scanned[0].index.is_some(), by_index, "{statement}");
        // Where nobody fills indexes, rows are found without them, or not at all.
        let alone = Sql::new(bed.tables.clone(), None);
        let found = alone.run(Arc::new(Open), statement, None).await;
        if statement.contains("text_") || statement.contains("array_") {
            let refused = found.unwrap_err();
            let is_so = matches!(&refused, Refusal::Unsupported(why) if why.contains("server"));
            assert!(is_so, "{statement}: {refused:?}");
        } else {
            let found = found.unwrap();
            assert_eq!(found.rows, answer.rows, "{statement}");
            assert_eq!(found.scanned[0].index, None, "{statement}");
        }
    }
    bed.refused("select town from people where text_match(tags, 'x')")
        .await;
    bed.refused("select text_match(name, 'x') from people")
        .await;
    bed.run("create table pix (town varchar(1024), n bigint, name mediumtext, primary key (town, n)) engine='searchindex', engine_attribute='{\"index_name\":\"ix\",\"table_name\":\"people\"}'").await.unwrap();
    assert_eq!(
        bed.shown("select n from pix where town = 'a'").await,
        "1;2;3"
    );
    assert_eq!(bed.shown("show tables").await, "buys;people;pix");
    assert!(
        bed.shown("show index in people")
            .await
            .contains("ix,3,ok,Y,BOOLEAN")
    );
    bed.close().await;
}

/// A caller that may read people.
struct Reader;

impl Door for Reader {
    fn allows(&self, table: &str, need: Need) -> bool {
        table == "people" && matches!(need, Need::Read | Need::Any)
    }

    fn seen(&self, table: Arc<Table>) -> Option<Arc<Table>> {
        Some(table)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_are_asked_before_a_table_is_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let bed = Bed::open(folder.path());
    filled(&bed).await;
    assert!(bed.run_as(Reader, "select * from people").await.is_ok());
    for (statement, table) in [
        ("select * from buys", "buys"),
        ("select * from nothing", "nothing"),
        ("select * from people p join buys b on p.n = b.id", "buys"),
        ("select * from (select 1 from buys) x", "buys"),
        ("describe buys", "buys"),
        ("delete from people where town = 'a' and n = 1", "people"),
        (
            "create table people (town varchar(1024), n bigint)",
            "people",
        ),
        ("drop mapping table nothing", "nothing"),
    ] {
        let refused = bed.run_as(Reader, statement).await;
        assert_eq!(
            refused.err(),
            Some(Refusal::Denied(table.to_owned())),
            "{statement}"
        );
    }
    let shown = bed.run_as(Reader, "show tables").await.unwrap();
    assert_eq!(shown.rows, [[crate::Datum::String("people".to_owned())]]);
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_refused_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let bed = Bed::open(folder.path());
    filled(&bed).await;
    for statement in [
        "select * from people union select * from people",
        "with x as (select 1) select * from x",
        "select (select 1)",
        "select n from people where n in (select 1)",
        "select n from people where exists (select 1)",
        "select * from (select * from people union select * from people) x",
        "select * from people p, lateral (select p.n) x",
        "select sum(n) over () from people",
        "select 1 from people p join buys b on 1 = 1 right join buys c on 1 = 1",
        "select 1 from people p, buys b right join buys c on 1 = 1",
        "select 1 from people natural join buys",
        "select 1 from people p full outer join buys b on 1 = 1",
        "select nofunction(1)",
        "truncate table people",
        "select n from people for update",
        "select @@version",
        "select score() from people",
        "replace into buys values (1, 1, 'x')",
        "select cast(-1 as unsigned)",
        "select cast(1e19 as unsigned)",
        "select cast(n - 9 as unsigned) from people",
        "select cast(1 as int unsigned)",
        "select cast('abc' as binary(2))",
        "select cast(1 as double(4, 2))",
        "select cast(now() as datetime(3))",
    ] {
        let refused = bed.refused(statement).await;
        assert!(
            matches!(refused, Refusal::Unsupported(_)),
            "{statement}: {refused:?}"
        );
    }
    for statement in [
        "select n, count(*) from people",
        "select count(count(n)) from people",
        "select n from people where count(*) > 1",
        "select n from people p join people q on p.n = q.n",
        "select * from (select 1)",
        "select n from (select name from people) x",
        "select 1 from people p join (select p.n) x on true",
        "select n from (select n, n from people) x",
        "select 9223372036854775807 + 1",
        "select lower()",
        "select cast(1 as decimal(2, 3))",
        "select n from people limit n",
        "select n from people order by 2",
        "select * ",
    ] {
        let refused = bed.refused(statement).await;
        assert!(
            matches!(refused, Refusal::Invalid(_)),
            "{statement}: {refused:?}"
        );
    }
    bed.close().await;
}
