//! `PMI_process_mapping`: which rank lives on which node, as the launcher published it.
//!
//! The text is `(vector,(first_node,nodes,ranks_per_node),...)`: each block gives ranks to `nodes`
//! consecutive nodes, `ranks_per_node` to each; the blocks repeat until every rank has a node.

/// The text for a job of `size` ranks on one node.
pub fn one_node(size: u32) -> String {
    format!("(vector,(0,1,{size}))")
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
    let size = usize::try_from(size).ok()?;
    let mut nodes = Vec::new();
    while nodes.len() < size {
        for &(first, count, per) in &blocks {
            for node in first..first + count {
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
    fn one_node_round_trips() {
        assert_eq!(nodes(&one_node(4), 4), Some(vec![0; 4]));
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
