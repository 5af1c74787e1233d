//! What was sent and is not acknowledged, piece by piece: which of it has arrived (RFC 2018), which is taken to be
//! lost because what was sent later has arrived (RACK, RFC 8985).

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::SEGMENT_BYTES_MAX;

/// Where a piece is taken to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Whereabouts {
    OnItsWay,
    Lost,
    /// Lost, sent again, and on its way.
    Resent,
    /// The other end has it, behind a hole.
    Arrived,
}

/// Numbers that were sent in one segment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Piece {
    pub begin: u64,
    pub end: u64,
    pub sent_ns: u64,
    pub is: Whereabouts,
    pub was_resent: bool,
}

impl Piece {
    /// Packets of the full size that it takes.
    pub fn packets(&self) -> u64 {
        (self.end - self.begin).div_ceil(SEGMENT_BYTES_MAX as u64)
    }
}

/// What an acknowledgement says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct News {
    /// Packets that are known to have arrived since.
    pub delivered: u64,
    /// Of these, those that nothing is missing before.
    pub acknowledged: u64,
    /// When the first and the last of these were sent that were never sent again.
    pub first_sent_ns: Option<u64>,
    pub last_sent_ns: Option<u64>,
    /// The end of the highest one that was never sent again, of all that are known to have arrived.
    pub original_end: Option<u64>,
    /// What arrived had been sent before what had arrived.
    pub reordered: bool,
}

/// All of it, in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outstanding {
    pieces: VecDeque<Piece>,
    /// Packets on their way, at the other end, lost; and pieces that were sent again.
    on_its_way: u64,
    arrived: u64,
    lost: u64,
    resent: u64,
    /// When the latest of those that have arrived was sent, its end, and its round trip.
    latest: (u64, u64),
    trip_ns: u64,
    highest: u64,
}

impl Outstanding {
    fn count(&mut self, is: Whereabouts) -> &mut u64 {
        match is {
            Whereabouts::OnItsWay | Whereabouts::Resent => &mut self.on_its_way,
            Whereabouts::Lost => &mut self.lost,
            Whereabouts::Arrived => &mut self.arrived,
        }
    }

    fn set(&mut self, index: usize, is: Whereabouts) {
        let Some(piece) = self.pieces.get_mut(index) else { return };
        let (was, packets) = (std::mem::replace(&mut piece.is, is), piece.packets());
        *self.count(was) -= packets;
        *self.count(is) += packets;
        self.resent += u64::from(is == Whereabouts::Resent);
        self.resent -= u64::from(was == Whereabouts::Resent);
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Packets that are on their way.
    pub fn in_flight(&self) -> u64 {
        self.on_its_way
    }

    /// Packets that are not acknowledged.
    pub fn packets(&self) -> u64 {
        self.on_its_way + self.arrived + self.lost
    }

    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// A piece was sent for the first time.
    pub fn sent(&mut self, now_ns: u64, begin: u64, end: u64) {
        let piece = Piece { begin, end, sent_ns: now_ns, is: Whereabouts::OnItsWay, was_resent: false };
        self.on_its_way += piece.packets();
        self.pieces.push_back(piece);
    }

    /// The first piece that is lost, of at most so many bytes, is sent again; gives its numbers.
    pub fn resend_lost(&mut self, now_ns: u64, bytes_max: u64) -> Option<(u64, u64)> {
        if self.lost == 0 {
            return None;
        }
        let index = self.pieces.iter().position(|piece| piece.is == Whereabouts::Lost)?;
        Some(self.resend(now_ns, index, bytes_max))
    }

    /// The last piece is sent again.
    pub fn resend_last(&mut self, now_ns: u64, bytes_max: u64) -> Option<(u64, u64)> {
        let index = self.pieces.iter().rposition(|piece| piece.is != Whereabouts::Arrived)?;
        Some(self.resend(now_ns, index, bytes_max))
    }

    fn resend(&mut self, now_ns: u64, index: usize, bytes_max: u64) -> (u64, u64) {
        self.split(index, bytes_max);
        self.set(index, Whereabouts::Resent);
        let piece = &mut self.pieces[index];
        (piece.sent_ns, piece.was_resent) = (now_ns, true);
        (piece.begin, piece.end)
    }

    /// The piece ends after so many bytes, and the rest is one of its own.
    fn split(&mut self, index: usize, bytes: u64) {
        let Some(piece) = self.pieces.get_mut(index) else { return };
        if piece.end - piece.begin <= bytes {
            return;
        }
        let whole = piece.packets();
        let mut rest = piece.clone();
        piece.end = piece.begin + bytes;
        rest.begin = piece.end;
        let (is, packets) = (piece.is, piece.packets() + rest.packets());
        *self.count(is) += packets - whole;
        self.resent += u64::from(is == Whereabouts::Resent);
        self.pieces.insert(index + 1, rest);
    }

    /// The other end has all below.
    pub fn acknowledge(&mut self, now_ns: u64, to: u64, shortest_ns: u64, news: &mut News) {
        while let Some(piece) = self.pieces.front() {
            if piece.begin >= to {
                break;
            }
            if piece.end > to {
                let bytes = to - piece.begin;
                self.split(0, bytes);
            }
            let was = self.pieces[0].is;
            if was != Whereabouts::Arrived {
                self.note_arrival(now_ns, 0, shortest_ns, news);
            }
            news.acknowledged += self.pieces[0].packets();
            self.set(0, Whereabouts::Arrived);
            if let Some(piece) = self.pieces.pop_front() {
                self.arrived -= piece.packets();
            }
        }
    }

    /// The other end has what is between.
    pub fn select(&mut self, now_ns: u64, block: (u64, u64), shortest_ns: u64, news: &mut News) {
        let mut index = self.pieces.partition_point(|piece| piece.begin < block.0);
        while let Some(piece) = self.pieces.get(index) {
            if piece.begin >= block.1 {
                break;
            }
            if piece.end > block.1 {
                let bytes = block.1 - piece.begin;
                self.split(index, bytes);
            }
            if self.pieces[index].is != Whereabouts::Arrived {
                self.note_arrival(now_ns, index, shortest_ns, news);
                self.set(index, Whereabouts::Arrived);
            }
            index += 1;
        }
    }

    fn note_arrival(&mut self, now_ns: u64, index: usize, shortest_ns: u64, news: &mut News) {
        let piece = &self.pieces[index];
        let trip_ns = now_ns - piece.sent_ns;
        news.delivered += piece.packets();
        if !piece.was_resent {
            news.first_sent_ns.get_or_insert(piece.sent_ns);
            news.last_sent_ns = Some(piece.sent_ns);
            news.original_end = news.original_end.max(Some(piece.end));
            news.reordered |= piece.end < self.highest;
        }
        self.highest = self.highest.max(piece.end);
        // What comes earlier than anything can is what was sent first.
        if piece.was_resent && trip_ns < shortest_ns {
            return;
        }
        self.trip_ns = trip_ns;
        self.latest = self.latest.max((piece.sent_ns, piece.end));
    }

    /// What was sent before the latest that has arrived, and by more than `patience_ns`, is lost. Gives how many packets
    /// are, newly, whether they had been sent again, and how long to wait for those that nearly are.
    pub fn find_lost(&mut self, now_ns: u64, patience_ns: u64) -> (u64, bool, Option<u64>) {
        let (before, mut again, mut wait_ns) = (self.lost, false, None);
        if self.arrived == 0 && self.resent == 0 {
            return (0, false, None);
        }
        for index in 0..self.pieces.len() {
            let piece = &self.pieces[index];
            let is_out = matches!(piece.is, Whereabouts::OnItsWay | Whereabouts::Resent);
            if !is_out || (piece.sent_ns, piece.end) >= self.latest {
                continue;
            }
            let due_ns = piece.sent_ns + self.trip_ns + patience_ns;
            if due_ns <= now_ns {
                again |= piece.is == Whereabouts::Resent;
                self.set(index, Whereabouts::Lost);
            } else {
                wait_ns = wait_ns.max(Some(due_ns - now_ns));
            }
        }
        (self.lost - before, again, wait_ns)
    }

    /// Nothing was acknowledged in time: all is lost that has not arrived, but for what was sent just now.
    pub fn lose_all(&mut self, now_ns: u64) {
        for index in 0..self.pieces.len() {
            let piece = &self.pieces[index];
            let is_recent = index > 0 && self.trip_ns > 0 && piece.sent_ns + self.trip_ns > now_ns;
            if piece.is != Whereabouts::Arrived && !is_recent {
                self.set(index, Whereabouts::Lost);
            }
        }
    }

    /// What was taken to be lost is not.
    pub fn lose_nothing(&mut self) {
        for index in 0..self.pieces.len() {
            if self.pieces[index].is == Whereabouts::Lost {
                self.set(index, Whereabouts::OnItsWay);
            }
        }
    }
}
