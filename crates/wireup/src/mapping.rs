//! `PMI_process_mapping`: which rank lives on which node, as the launcher published it.
//!
//! The text is `(vector,(first_node,nodes,ranks_per_node),...)`: each block gives ranks to `nodes`
//! consecutive nodes, `ranks_per_node` to each; the blocks repeat until every rank has a node.

/// The text for a job whose ranks are on these nodes: ranks dealt out evenly need one block, whatever
/// their number; an irregular layout needs more, and its text may be longer than a PMI value.
pub fn text(nodes: &[u32]) -> String {
    let blocks = blocks(nodes);
    // Blocks repeat, so the first few may say everything.
    let enough = |count: &usize| dealt(&blocks[..*count], nodes.len()).as_deref() == Some(nodes);
    let count = (1..blocks.len()).find(enough).unwrap_or(blocks.len());
    let shown: Vec<String> = blocks[..count]
        .iter()
        .map(|(first, nodes, ranks)| format!("({first},{nodes},{ranks})"))
        .collect();
    format!("(vector,{})", shown.join(","))
}

/// First node, number of nodes, ranks on each.
type Block = (u32, u32, u32);

/// Joins neighbours: ranks on one node to a run, runs of one length on consecutive nodes to a block.
fn blocks(nodes: &[u32]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for run in nodes.chunk_by(|a, b| a == b) {
        let (node, length) = (run[0], u32::try_from(run.len()).unwrap_or(u32::MAX));
        match blocks.last_mut() {
            Some((first, count, ranks)) if *first + *count == node && *ranks == length => {
                *count += 1
            }
            _ => blocks.push((node, 1, length)),
        }
    }
    blocks
}

/// The node of each of `size` ranks. `None` if the text is malformed or gives nobody a node; the
/// work is bounded by `size` whatever the numbers in the text are.
pub fn nodes(text: &str, size: u32) -> Option<Vec<u32>> {
    let body = text.strip_prefix("(vector,")?.strip_suffix(')')?;
    let mut blocks = Vec::new();
    for block in body.split("),") {
        let block = block.strip_prefix('(')?;
        let block = block.strip_suffix(')').unwrap_or(block);
        let mut numbers = block.split(',').map(|n| n.parse::<u32>().ok());
        let (first, count, per) = (numbers.next()??, numbers.next()??, numbers.next()??);
        if numbers.next().is_some() || count == 0 || per == 0 || first.checked_add(count).is_none()
        {
            return None;
        }
        blocks.push((first, count, per));
    }
    dealt(&blocks, usize::try_from(size).ok()?)
}

/// Deals `size` ranks out to blocks that give every one of their nodes some.
fn dealt(blocks: &[Block], size: usize) -> Option<Vec<u32>> {
    let mut nodes = Vec::new();
    while nodes.len() < size {
        for &(first, count, per) in blocks {
            for node in first..first.checked_add(count)? {
                for _ in 0..per {
                    if nodes.len() == size {
                        return Some(nodes);
                    }
                    nodes.push(node);
                }
            }
        }
    }
    Some(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_are_short() {
        assert_eq!(text(&[0, 0, 0, 0]), "(vector,(0,1,4))");
        assert_eq!(text(&[0, 0, 1, 1, 2, 2]), "(vector,(0,3,2))");
        assert_eq!(text(&[0, 1, 2, 0, 1, 2, 0]), "(vector,(0,3,1))");
        assert_eq!(text(&[0, 0, 0, 1, 0, 0]), "(vector,(0,1,3),(1,1,1))");
    }

    #[test]
    fn blocks_repeat() {
        assert_eq!(nodes("(vector,(0,2,1))", 5), Some(vec![0, 1, 0, 1, 0]));
        assert_eq!(
            nodes("(vector,(0,2,2),(5,1,1))", 5),
            Some(vec![0, 0, 1, 1, 5])
        );
    }

    #[test]
    fn malformed_is_none() {
        for text in [
            "",
            "(vector,)",
            "(vector,())",
            "(vector,(0,0,1))",
            "(vector,(0,1))",
            "(vector,(4294967295,1,1))",
            "(vector,(0,1,1,1))",
            "(list,(0,1,1))",
        ] {
            assert_eq!(nodes(text, 3), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_layout_round_trips(layout in proptest::collection::vec(0u32..4, 1..40)) {
            prop_assert_eq!(nodes(&text(&layout), layout.len() as u32), Some(layout));
        }

        #[test]
        fn huge_numbers_cost_nothing(a in any::<u32>(), b in any::<u32>(), c in any::<u32>(), size in 0u32..100) {
            if let Some(nodes) = nodes(&format!("(vector,({a},{b},{c}))"), size) {
                prop_assert_eq!(nodes.len(), size as usize);
            }
        }

        #[test]
        fn never_panics(text in "[(),vector0-9]{0,40}") {
            let _ = nodes(&text, 7);
        }
    }
}
