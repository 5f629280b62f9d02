//! Random traffic between all ranks, every byte verified.

use mtmi::{Context, Cookie, Endpoint, Outcome, SendMode, Source, TagSel, Transport};

use crate::common::{Net, Random, Rank, check, data, filled, run, strided, typed};

pub fn all(net: &Net) {
    for ranks in [2, 5] {
        run("traffic", ranks, net, |me| {
            for phase in 0..24 {
                storm(me, phase);
            }
        });
    }
}

/// More ranks than processors, each connected to each.
pub fn many(net: &Net) {
    run("traffic of many", 16, net, |me| {
        for phase in [0, 5, 10, 3] {
            storm(me, phase);
        }
    });
}

struct Message {
    from: u32,
    to: u32,
    tag: i32,
    context: Context,
    len: usize,
    mode: SendMode,
    seed: u64,
    /// Strided on the sending side, on the receiving side.
    strided: (bool, bool),
}

/// All messages of a phase; the same list in every rank.
fn plan(phase: u64, ranks: u32) -> Vec<Message> {
    let mut r = Random(phase * 1000 + u64::from(ranks));
    let (count, max) =
        [(600, 100), (300, 20_000), (60, 300_000), (12, 4 << 20)][phase as usize % 4];
    (0..count)
        .map(|i| {
            let len = match r.below(8) {
                0 => 0,
                1 => max,
                2 => [
                    95, 96, 97, 4064, 4096, 16_384, 16_385, 65_536, 262_143, 262_144, 262_145,
                ][r.below(11) as usize]
                    .min(max),
                _ => r.below(max + 1),
            };
            Message {
                from: r.below(u64::from(ranks)) as u32,
                to: r.below(u64::from(ranks)) as u32,
                tag: r.below(4) as i32,
                context: Context(10 + r.below(2) as u32),
                len: len as usize,
                mode: match r.below(4) {
                    0 => SendMode::Synchronous,
                    _ => SendMode::Standard,
                },
                seed: phase << 32 | i,
                strided: (r.below(3) == 0, r.below(3) == 0),
            }
        })
        .collect()
}

/// Blocks of seven bytes every eleven, or plain.
const BLOCK: usize = 7;
const STEP: usize = 11;

fn spread(packed: &[u8], gap: u8) -> Vec<u8> {
    let mut out = vec![gap; packed.len().div_ceil(BLOCK) * STEP];
    for (i, b) in packed.chunks(BLOCK).enumerate() {
        out[i * STEP..i * STEP + b.len()].copy_from_slice(b);
    }
    out
}

/// How receives of a phase select.
fn selector(phase: u64, m: &Message) -> (Source, TagSel) {
    let from = Source::From(Endpoint(m.from));
    match phase % 3 {
        0 => (from, TagSel::Exact(m.tag)),
        1 => (Source::Any, TagSel::Exact(m.tag)),
        _ => (Source::Any, TagSel::Any),
    }
}

struct Posted {
    cookie: Cookie,
    buffer: Vec<u8>,
    strided: bool,
    selector: (Source, TagSel),
    context: Context,
}

fn storm(me: &mut Rank, phase: u64) {
    let plan = plan(phase, me.ranks);
    let late = phase / 4 % 3;
    let mut sends = Vec::new();
    let mut posted = Vec::new();
    if late == 0 {
        post_all(me, phase, &plan, &mut posted);
        me.barrier();
    }
    let mine = me.me;
    for m in plan.iter().filter(|m| m.from == mine) {
        let mut packed = filled(m.seed, m.len);
        let whole = m.strided.0 && m.len.is_multiple_of(BLOCK);
        let cookie = if whole && m.len > 0 {
            let mut buffer = spread(&packed, 0xee);
            let program = strided(BLOCK as u64, STEP as i64, 1);
            let program_count = (m.len / BLOCK) as u64;
            let cookie = {
                let d = typed(&mut buffer, &program, program_count);
                me.isend(m.to, m.context, m.tag, m.mode, d)
            };
            packed = buffer;
            cookie
        } else {
            let d = data(&mut packed);
            me.isend(m.to, m.context, m.tag, m.mode, d)
        };
        sends.push((cookie, packed));
        if phase.is_multiple_of(2) {
            me.poll();
        }
    }
    if late == 1 {
        // Everything that needs no receive arrives unexpectedly.
        let end = std::time::Instant::now() + std::time::Duration::from_millis(3);
        while std::time::Instant::now() < end {
            me.poll();
        }
    }
    if late != 0 {
        post_all(me, phase, &plan, &mut posted);
    }
    verify(me, &plan, posted);
    for (cookie, buffer) in sends {
        let end = me.wait(cookie);
        assert_eq!(end.outcome, Outcome::Done);
        drop(buffer);
    }
    assert!(me.ended.is_empty());
    me.barrier();
}

fn post_all(me: &mut Rank, phase: u64, plan: &[Message], posted: &mut Vec<Posted>) {
    let longest = plan.iter().map(|m| m.len).max().unwrap_or(0);
    let mine = me.me;
    for m in plan.iter().filter(|m| m.to == mine) {
        let selector = selector(phase, m);
        // What a wildcard receives is not known.
        let exact = phase.is_multiple_of(3);
        let room = if exact { m.len } else { longest };
        let strided_here = m.strided.1;
        let mut buffer = vec![
            0xdd;
            if strided_here {
                room.div_ceil(BLOCK) * STEP
            } else {
                room
            }
        ];
        let d = if strided_here && room > 0 {
            typed(
                &mut buffer,
                &strided(BLOCK as u64, STEP as i64, 1),
                room.div_ceil(BLOCK) as u64,
            )
        } else {
            data(&mut buffer)
        };
        if phase % 5 == 4
            && let Some((id, envelope)) = me.t.mprobe(selector.0, m.context, selector.1)
        {
            let cookie = me.imrecv(id, d);
            let known = (Source::From(envelope.source), TagSel::Exact(envelope.tag));
            posted.push(Posted {
                cookie,
                buffer,
                strided: strided_here,
                selector: known,
                context: m.context,
            });
            continue;
        }
        let cookie = me.irecv(selector.0, m.context, selector.1, d);
        posted.push(Posted {
            cookie,
            buffer,
            strided: strided_here,
            selector,
            context: m.context,
        });
    }
}

/// Every receive, in the order of posting, must hold the first message that it could match and no
/// earlier receive did.
fn verify(me: &mut Rank, plan: &[Message], posted: Vec<Posted>) {
    let mut open: Vec<&Message> = plan.iter().filter(|m| m.to == me.me).collect();
    for p in posted {
        let end = me.wait(p.cookie);
        assert_eq!(end.outcome, Outcome::Done);
        // Messages of one source in one context keep their order.
        let fits = |m: &Message| {
            m.from == end.source.0
                && m.context == p.context
                && (p.selector.1 == TagSel::Any || m.tag == end.tag)
        };
        let at = open
            .iter()
            .position(|m| fits(m))
            .expect("a message nobody sent");
        let m = open.remove(at);
        assert_eq!((m.tag, m.len as u64), (end.tag, end.bytes), "{}", m.seed);
        if p.strided && !p.buffer.is_empty() {
            let mut want = spread(&filled(m.seed, m.len), 0xdd);
            want.resize(p.buffer.len(), 0xdd);
            assert!(p.buffer == want, "message {} came out wrong", m.seed);
        } else {
            check(m.seed, &p.buffer[..m.len]);
            assert!(p.buffer[m.len..].iter().all(|&b| b == 0xdd));
        }
    }
    assert!(open.is_empty());
}
