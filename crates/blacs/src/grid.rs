//! Grids: which process sits at which coordinates.
//!
//! Processes of a grid are numbered row by row, whatever order they were placed in; that number is what
//! `blacs_pnum` gives and what a communicator of the grid counts.

use crate::{Error, Scope};

/// A grid of processes, seen from one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    rows: u32,
    columns: u32,
    row: u32,
    column: u32,
}

impl Grid {
    /// The map of `blacs_gridinit`: process numbers row by row. `rows` and `columns` are at least 1.
    pub fn in_order(column_major: bool, rows: i32, columns: i32) -> Vec<i32> {
        let place = |row: i32, column: i32| match column_major {
            true => column * rows + row,
            false => row * columns + column,
        };
        (0..rows)
            .flat_map(|row| (0..columns).map(move |column| place(row, column)))
            .collect()
    }

    /// Checks a grid's sides against the number of processes there are.
    pub fn check(rows: i32, columns: i32, have: usize) -> Result<(), Error> {
        let places = i64::from(rows) * i64::from(columns);
        if rows < 1 || columns < 1 || places > have as i64 {
            return Err(Error::Grid(rows, columns, have));
        }
        Ok(())
    }

    /// The ranks among all processes of those that `map` names row by row; `system` are the ranks of the system
    /// context's processes.
    pub fn members(map: &[i32], system: &[u32]) -> Result<Vec<u32>, Error> {
        let mut taken = vec![false; system.len()];
        let mut members = Vec::with_capacity(map.len());
        for &number in map {
            let at = usize::try_from(number).ok().filter(|&at| at < system.len());
            let at = at.ok_or(Error::MapRank(number, system.len()))?;
            if std::mem::replace(&mut taken[at], true) {
                return Err(Error::MapTwice(number));
            }
            members.push(system[at]);
        }
        Ok(members)
    }

    /// The grid of `rows` times `columns` as process `number` sees it.
    pub fn new(rows: u32, columns: u32, number: u32) -> Grid {
        Grid {
            rows,
            columns,
            row: number / columns,
            column: number % columns,
        }
    }

    /// Rows and columns.
    pub fn sides(&self) -> (i32, i32) {
        (self.rows as i32, self.columns as i32)
    }

    /// The coordinates of this process.
    pub fn place(&self) -> (i32, i32) {
        (self.row as i32, self.column as i32)
    }

    /// The number of this process.
    pub fn number(&self) -> u32 {
        self.row * self.columns + self.column
    }

    /// The number of the process at these coordinates.
    #[inline]
    pub fn number_at(&self, row: i32, column: i32) -> Option<u32> {
        // What is negative is large.
        let (row, column) = (row as u32, column as u32);
        (row < self.rows && column < self.columns).then(|| row * self.columns + column)
    }

    /// The coordinates of a process.
    pub fn place_of(&self, number: i32) -> Option<(i32, i32)> {
        let number = u32::try_from(number).ok();
        let number = number.filter(|&number| number < self.rows * self.columns)?;
        Some((
            (number / self.columns) as i32,
            (number % self.columns) as i32,
        ))
    }

    /// How many processes a scope has.
    pub fn size(&self, scope: Scope) -> u32 {
        match scope {
            Scope::Row => self.columns,
            Scope::Column => self.rows,
            Scope::All => self.rows * self.columns,
        }
    }

    /// Which of its scope this process is.
    pub fn within(&self, scope: Scope) -> u32 {
        match scope {
            Scope::Row => self.column,
            Scope::Column => self.row,
            Scope::All => self.number(),
        }
    }

    /// The number of the process that is `index` in its (our) scope.
    pub fn number_in(&self, scope: Scope, index: u32) -> u32 {
        match scope {
            Scope::Row => self.row * self.columns + index,
            Scope::Column => index * self.columns + self.column,
            Scope::All => index,
        }
    }

    /// Which of the scope the process at these coordinates is, when only those that the scope leaves open are
    /// looked at.
    pub fn index_at(&self, scope: Scope, row: i32, column: i32) -> Option<u32> {
        let (mine_row, mine_column) = self.place();
        match scope {
            Scope::Row => self.number_at(mine_row, column).map(|_| column as u32),
            Scope::Column => self.number_at(row, mine_column).map(|_| row as u32),
            Scope::All => self.number_at(row, column),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_places() {
        assert_eq!(Grid::in_order(false, 2, 3), [0, 1, 2, 3, 4, 5]);
        assert_eq!(Grid::in_order(true, 2, 3), [0, 2, 4, 1, 3, 5]);
    }

    #[test]
    fn maps_are_checked() {
        assert_eq!(Grid::members(&[2, 0], &[5, 6, 7]), Ok(vec![7, 5]));
        assert_eq!(Grid::members(&[3], &[5, 6, 7]), Err(Error::MapRank(3, 3)));
        assert_eq!(Grid::members(&[-1], &[5]), Err(Error::MapRank(-1, 1)));
        assert_eq!(Grid::members(&[1, 1], &[5, 6]), Err(Error::MapTwice(1)));
        assert!(Grid::check(2, 2, 4).is_ok());
        for (rows, columns) in [(0, 1), (1, -1), (2, 3), (1 << 20, 1 << 20)] {
            assert!(Grid::check(rows, columns, 4).is_err());
        }
    }

    #[test]
    fn numbers_and_places() {
        let grid = Grid::new(2, 3, 4);
        assert_eq!((grid.place(), grid.number()), ((1, 1), 4));
        for number in 0..6 {
            let (row, column) = grid.place_of(number).unwrap();
            assert_eq!(grid.number_at(row, column), Some(number as u32));
            assert_eq!(grid.index_at(Scope::All, row, column), Some(number as u32));
        }
        assert_eq!(grid.place_of(6), None);
        assert_eq!(grid.number_at(2, 0), None);
        assert_eq!(grid.number_at(0, -1), None);
        assert_eq!(grid.index_at(Scope::Row, 99, 2), Some(2));
        assert_eq!(grid.index_at(Scope::Column, 0, 99), Some(0));
        assert_eq!(grid.number_in(Scope::Row, 2), 5);
        assert_eq!(grid.number_in(Scope::Column, 0), 1);
        assert_eq!((grid.size(Scope::Row), grid.within(Scope::Row)), (3, 1));
        assert_eq!(
            (grid.size(Scope::Column), grid.within(Scope::Column)),
            (2, 1)
        );
    }
}
