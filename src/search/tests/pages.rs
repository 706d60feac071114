//! Pages of large rows.
//!
//! Owns: the bytes that end one. Must not: look at the order of rows (`searches.rs`).

use tideline_model::Value;
use tideline_model::search::{Columns, Query, Search};

use super::bed::{Bed, key_of, search};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_large_rows_ends_early_and_the_next_one_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::open(folder.path());
    bed.create().await;
    bed.index().await;
    let large = Value::String("x".repeat(150_000));
    for number in 0..50 {
        let cells = [("large", large.clone())].into();
        bed.write(("a".to_owned(), number), Some(cells)).await;
    }
    let mut asked = Search {
        columns: Columns::All,
        ..search(Query::All, None, 50)
    };
    let mut pages = Vec::new();
    loop {
        let page = bed.search(asked.clone()).await;
        assert!(page.is_all && page.total == Some(50));
        pages.push(
            page.rows
                .iter()
                .map(|(rows, _)| key_of(&rows[0]).1)
                .collect::<Vec<_>>(),
        );
        let Some(next) = page.next else { break };
        asked.token = Some(next);
    }
    // 4 MiB and one row more, though more are read at a time.
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [28, 22]);
    assert_eq!(pages.concat(), (0..50).collect::<Vec<_>>());
    // The control: keys alone are one page.
    let keys = bed.search(search(Query::All, None, 50)).await;
    assert!(keys.rows.len() == 50 && keys.next.is_none());
    bed.close().await;
}
