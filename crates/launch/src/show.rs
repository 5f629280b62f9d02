//! `yamabiko cad show`: the graph of a collective as one rank runs it, as text for Graphviz, as a
//! picture, or as the chains that it compiles to. Needs no job: graphs follow from numbers alone.

use cad::{
    Graph, Part, Shape, Team, allgather, allreduce, alltoall, barrier, bcast, gather, reduce,
    reduce_scatter, scan, scatter, straight,
};
use chains::{KERNEL_CALC_MAX, Options, Program, compile, team};
use clap::ValueEnum;

/// Ranks up to which the chains of all are compiled, to see whether they fit together.
const TEAM_MAX: u32 = 64;

/// Bytes of an element where the size is a multiple of it: a double's.
const ELEMENT: u64 = 8;

/// Bytes of a buffer, unless others are asked for.
const SIZE: u64 = 64 << 10;

/// A collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "the names of MPI")]
pub enum Collective {
    Barrier,
    Bcast,
    Gather,
    Scatter,
    Allgather,
    Alltoall,
    Reduce,
    Allreduce,
    ReduceScatterBlock,
    Scan,
    Exscan,
}

impl Collective {
    fn has_root(self) -> bool {
        use Collective::{Bcast, Gather, Reduce, Scatter};
        matches!(self, Bcast | Gather | Scatter | Reduce)
    }

    /// Whether its graph depends on where the ranks are.
    fn has_spread(self) -> bool {
        matches!(self, Collective::Bcast | Collective::Allreduce)
    }
}

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The graph in the DOT language
    Dot,
    /// The graph as an SVG picture
    Svg,
    /// The chains for the kernel
    Chains,
}

/// Where ranks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Spread {
    /// All share memory
    Together,
    /// All share memory, and each copies what is long from where its sender has it
    Lending,
    /// Each is on a machine of its own, and the kernel runs it
    Apart,
    /// Each is on a machine of its own, and waits in the call
    ApartWaiting,
    /// Those of each of several machines follow on one another, and wait in the call
    Blocks,
    /// Anywhere; or on machines of their own, run in calls, and no call waits for it
    Mixed,
}

impl From<Spread> for bcast::Spread {
    fn from(spread: Spread) -> bcast::Spread {
        match spread {
            Spread::Together => bcast::Spread::Together,
            Spread::Lending => bcast::Spread::Lending,
            Spread::Apart => bcast::Spread::Apart(bcast::Relay::Kernel),
            Spread::ApartWaiting => bcast::Spread::Apart(bcast::Relay::Process),
            Spread::Blocks => bcast::Spread::Blocks,
            Spread::Mixed => bcast::Spread::Mixed,
        }
    }
}

/// Arguments of `yamabiko cad show`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Which collective
    pub collective: Collective,
    /// Number of ranks
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub ranks: u32,
    /// Bytes of the buffer, or of a block where each rank has its own; k and M stand for 1024 and 1024^2
    /// [default: 64k]
    #[arg(long, value_name = "BYTES", value_parser = bench::command::size)]
    pub size: Option<u64>,
    /// Whose graph
    #[arg(long, value_name = "RANK", default_value_t = 0)]
    pub rank: u32,
    /// Rank that has the data, or gets them [default: 0]
    #[arg(long, value_name = "RANK")]
    pub root: Option<u32>,
    /// Where the ranks are: the graphs of broadcasts and allreduces depend on it [default: together]
    #[arg(long, value_enum)]
    pub spread: Option<Spread>,
    /// As a non-blocking or persistent one of three to eight ranks that share memory, in calls: nobody passes on what another wants
    #[arg(long)]
    pub straight: bool,
    /// What to print
    #[arg(long = "as", value_enum, default_value_t = Format::Dot)]
    pub format: Format,
    /// Chains: bytes that a connection surely takes although its peer does not receive
    /// [default: 0]
    #[arg(long, value_name = "BYTES", value_parser = bench::command::size)]
    pub eager: Option<u64>,
    /// Chains: the kernel does short calculations and copies, not the rank
    #[arg(long)]
    pub kernel: bool,
    /// Chains: relays receive and forward piece by piece in one chain
    #[arg(long)]
    pub interleave: bool,
}

impl Args {
    fn bytes(&self) -> u64 {
        self.size.unwrap_or(SIZE)
    }

    fn graph(&self, rank: u32) -> Graph {
        let (root, in_place, size) = (self.root.unwrap_or(0), false, self.ranks);
        let team = Team {
            straight: self.straight,
            ..Team::new(rank, size)
        };
        let bytes = self.bytes();
        let width = if bytes.is_multiple_of(ELEMENT) {
            ELEMENT
        } else {
            1
        };
        let ty = Shape {
            size: width,
            extent: width as i64,
            true_extent: width,
            contiguous: true,
        };
        let count = bytes / width;
        let (send, recv) = (Part { count, ty }, Part { count, ty });
        let commutative = true;
        let prefix = scan::Params {
            team,
            count,
            ty,
            in_place,
        };
        match self.collective {
            Collective::Barrier => barrier::graph(&team),
            Collective::Bcast => bcast::graph(&bcast::Params {
                team,
                root,
                count,
                ty,
                spread: self.spread.unwrap_or(Spread::Together).into(),
            }),
            Collective::Gather => gather::graph(&gather::Params {
                team,
                root,
                send,
                recv,
                in_place,
            }),
            Collective::Scatter => scatter::graph(&scatter::Params {
                team,
                root,
                send,
                recv,
                in_place,
            }),
            Collective::Allgather => allgather::graph(&allgather::Params {
                team,
                send,
                recv,
                in_place,
            }),
            Collective::Alltoall => alltoall::graph(&alltoall::Params {
                team,
                send,
                recv,
                in_place,
            }),
            Collective::Reduce => reduce::graph(&reduce::Params {
                team,
                root,
                count,
                ty,
                commutative,
                in_place,
            }),
            Collective::Allreduce => allreduce::graph(&allreduce::Params {
                team,
                count,
                ty,
                commutative,
                in_place,
                together: matches!(self.spread, None | Some(Spread::Together | Spread::Lending)),
            }),
            Collective::ReduceScatterBlock => reduce_scatter::graph(&reduce_scatter::Params {
                team,
                counts: reduce_scatter::Counts::Equal(count),
                ty,
                commutative,
                in_place,
            }),
            Collective::Scan => scan::graph(&prefix),
            Collective::Exscan => scan::graph_exclusive(&prefix),
        }
    }

    fn options(&self) -> Options {
        let kernel = if self.kernel { KERNEL_CALC_MAX } else { 0 };
        Options {
            eager: self.eager.unwrap_or(0),
            kernel_calc: kernel,
            kernel_copy: kernel,
            interleave: self.interleave,
            ..Options::default()
        }
    }

    fn program(&self, rank: u32) -> Result<Program, String> {
        let world: Vec<u32> = (0..self.ranks).collect();
        compile(&self.graph(rank), &world, None, &self.options())
            .map_err(|why| format!("rank {rank}'s graph cannot run as chains: {why}"))
    }

    fn chains(&self) -> Result<String, String> {
        let own = self.program(self.rank)?;
        own.verify(self.ranks)
            .map_err(|fault| format!("rank {}'s chains are faulty: {fault}", self.rank))?;
        let head = format!(
            "rank {} of {}: {} chains, {} tokens, {} submissions",
            self.rank,
            self.ranks,
            own.chains().count(),
            own.tokens,
            own.submissions()
        );
        if self.ranks > TEAM_MAX {
            return Ok(format!("{head}\n{own}"));
        }
        let all: Vec<Program> = (0..self.ranks)
            .map(|rank| self.program(rank))
            .collect::<Result<_, _>>()?;
        team::verify(&all, self.ranks, self.eager.unwrap_or(0))
            .map_err(|why| format!("the chains of all ranks do not fit together: {why}"))?;
        Ok(format!("{head}; those of all ranks fit together\n{own}"))
    }
}

/// Refuses what would have no effect.
fn check_effects(args: &Args) -> Result<(), String> {
    if args.size.is_some() && args.collective == Collective::Barrier {
        return Err("--size: a barrier moves no data".to_owned());
    }
    let of_chains = [
        ("--eager", args.eager.is_some()),
        ("--kernel", args.kernel),
        ("--interleave", args.interleave),
    ];
    let given = of_chains.iter().find(|(_, given)| *given);
    if let (Some((name, _)), true) = (given, args.format != Format::Chains) {
        return Err(format!(
            "{name}: only chains depend on it: say --as chains too"
        ));
    }
    if args.root.is_some() && !args.collective.has_root() {
        return Err("--root: this collective has none".to_owned());
    }
    if args.spread.is_some() && !args.collective.has_spread() {
        return Err(
            "--spread: only the graphs of bcast and allreduce depend on where ranks are".to_owned(),
        );
    }
    if args.straight && !straight::serves(args.ranks) {
        return Err(format!(
            "--straight: it is 3 to {} ranks that go straight",
            straight::RANKS_MAX
        ));
    }
    let elsewhere = !matches!(args.spread, None | Some(Spread::Together | Spread::Lending));
    if args.straight && elsewhere {
        return Err("--straight: it is ranks that share memory that go straight".to_owned());
    }
    Ok(())
}

/// The text to print; the error is a sentence.
pub fn show(args: &Args) -> Result<String, String> {
    check_effects(args)?;
    for (name, rank) in [("--rank", args.rank), ("--root", args.root.unwrap_or(0))] {
        if rank >= args.ranks {
            return Err(format!("{name} {rank}: ranks are 0 to {}", args.ranks - 1));
        }
    }
    if args
        .bytes()
        .checked_mul(u64::from(args.ranks))
        .is_none_or(|n| n > i64::MAX as u64)
    {
        return Err(format!("--size {}: too large", args.bytes()));
    }
    let graph = args.graph(args.rank);
    graph
        .verify()
        .map_err(|why| format!("rank {}'s graph is not valid: {why}", args.rank))?;
    match args.format {
        Format::Dot => Ok(graph.to_dot()),
        Format::Svg => Ok(graph.to_svg()),
        Format::Chains => args.chains(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(collective: Collective, format: Format) -> Args {
        Args {
            collective,
            ranks: 8,
            size: None,
            rank: 3,
            root: None,
            format,
            eager: None,
            kernel: false,
            interleave: false,
            spread: None,
            straight: false,
        }
    }

    #[test]
    fn every_collective_shows_as_graph_picture_and_chains() {
        for &collective in Collective::value_variants() {
            let shown = |format| show(&args(collective, format)).unwrap();
            let (dot, svg) = (shown(Format::Dot), shown(Format::Svg));
            let nodes = dot.matches("label=").count();
            assert!(nodes > 0, "{collective:?}");
            // A box for each node, START and END; the background is a rectangle too.
            assert_eq!(svg.matches("<rect").count(), nodes + 3, "{collective:?}");
            assert!(svg.ends_with("</svg>\n"));
            let chains = shown(Format::Chains);
            assert!(
                chains.contains("fit together") && chains.contains("  END\n"),
                "{chains}"
            );
        }
    }

    #[test]
    fn a_small_allreduce_in_the_kernel_is_one_chain() {
        let mut args = args(Collective::Allreduce, Format::Chains);
        (args.size, args.eager, args.kernel) = (Some(8), Some(4096), true);
        assert!(
            show(&args)
                .unwrap()
                .contains(": 1 chains, 0 tokens, 11 submissions")
        );
    }

    #[test]
    fn ranks_that_do_not_exist_are_refused() {
        let mut args = args(Collective::Bcast, Format::Dot);
        args.root = Some(8);
        assert_eq!(show(&args), Err("--root 8: ranks are 0 to 7".into()));
        (args.root, args.rank) = (None, 9);
        assert_eq!(show(&args), Err("--rank 9: ranks are 0 to 7".into()));
        (args.rank, args.size) = (0, Some(u64::MAX));
        assert!(show(&args).is_err());
    }

    #[test]
    fn collectives_behind_which_few_compute_are_others() {
        for &collective in Collective::value_variants() {
            let mut args = args(collective, Format::Dot);
            args.size = (collective != Collective::Barrier).then_some(8);
            let rounds = show(&args).unwrap();
            args.straight = true;
            let straight = show(&args).unwrap();
            assert!(straight.contains("SEND") || straight.contains("RECV"));
            assert_ne!(rounds, straight, "{collective:?}");
            args.ranks = straight::RANKS_MAX + 1;
            assert!(show(&args).unwrap_err().starts_with("--straight: it is 3"));
        }
        let mut bcast = args(Collective::Bcast, Format::Dot);
        (bcast.straight, bcast.spread) = (true, Some(Spread::Lending));
        assert!(show(&bcast).is_ok());
        bcast.spread = Some(Spread::Apart);
        assert!(
            show(&bcast)
                .unwrap_err()
                .starts_with("--straight: it is ranks")
        );
    }

    #[test]
    fn what_would_have_no_effect_is_refused() {
        let mut args = args(Collective::Allgather, Format::Dot);
        args.spread = Some(Spread::Apart);
        assert!(show(&args).unwrap_err().starts_with("--spread: "));
        (args.spread, args.root) = (None, Some(1));
        assert!(show(&args).unwrap_err().starts_with("--root: "));
        args.collective = Collective::Bcast;
        args.spread = Some(Spread::Apart);
        show(&args).unwrap();
        args.eager = Some(0);
        let why = "--eager: only chains depend on it: say --as chains too";
        assert_eq!(show(&args), Err(why.into()));
        (args.eager, args.kernel) = (None, true);
        assert!(show(&args).unwrap_err().starts_with("--kernel: "));
        (args.kernel, args.interleave) = (false, true);
        assert!(show(&args).unwrap_err().starts_with("--interleave: "));
        args.format = Format::Chains;
        show(&args).unwrap();
        args = self::args(Collective::Barrier, Format::Dot);
        args.size = Some(8);
        assert!(show(&args).unwrap_err().starts_with("--size: "));
    }

    #[test]
    fn where_ranks_are_changes_an_allreduce_of_two() {
        let mut args = args(Collective::Allreduce, Format::Dot);
        (args.ranks, args.rank, args.size) = (2, 0, Some(1 << 20));
        let together = show(&args).unwrap();
        args.spread = Some(Spread::Apart);
        assert_ne!(show(&args).unwrap(), together);
    }
}
