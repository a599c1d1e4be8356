// A tile in workgroup memory: the totals of its leaves, and of ever larger blocks of them.
//
//   leaf      0   1   2   3   4   5   6   7          the total of an aligned block of 2^k leaves ends up
//   level 1      0+1     2+3     4+5     6+7         in the slot of the block's last leaf
//   level 2             0..3            4..7
//
// So a slot whose leaf number plus one is an odd multiple of 2^k keeps the total of 2^k leaves: the blocks that a scan
// needs to the left of any leaf. One step joins sixteen neighbouring blocks, which is four levels.
//
// A slot's number is line, leaf (lines apart in memory) or leaf, line (lines side by side):
//
//   log_stride = 0           [line | leaf]           lanes next to each other take leaves next to each other
//   log_stride = log_lines   [leaf | line]           … lines next to each other
//
// Either way the leaf is the log_leaves bits from log_stride up, and one arithmetic serves both.
//
// Ordering: invocations read what others wrote one step before, a barrier apart. Blocks that do not exist are never
// joined, so nothing is read that was not written.
// Holes: Acc, combine, read_slot, write_slot. SLOTS is the room for a tile, all lines together; EVEN_SLOTS the least that
// fills the rows a kernel takes at a time; ALWAYS_EVEN promises that all tiles do.

fn leaf_of(slot: u32) -> u32 {
    return (slot >> P.log_stride) & ((1u << P.log_leaves) - 1u);
}

fn line_of(slot: u32) -> u32 {
    return (slot & ((1u << P.log_stride) - 1u)) + (slot >> (P.log_leaves + P.log_stride));
}

// The tile of a workgroup: where it begins, and how much of it exists.
struct Tile {
    number: u32,
    first_line: u32,
    first_leaf: u32,
    lines: u32,
    leaves: u32,
    slots: u32,
    // Whether the kernel's rows all exist with whole leaves, and a lane's are all of one line, row_step elements apart.
    is_even: bool,
    row_step: u32,
}

fn tile_of(group: u32) -> Tile {
    let number = group % P.tiles;
    let first_line = (group / P.tiles) << P.log_lines;
    let first_leaf = number << P.log_leaves;
    let lines = min(P.lines - first_line, 1u << P.log_lines);
    let leaves = min((P.length + 3u) / 4u - first_leaf, 1u << P.log_leaves);
    let slots = 1u << (P.log_leaves + P.log_lines);
    let is_full = slots >= EVEN_SLOTS && lines == 1u << P.log_lines && (first_leaf + (1u << P.log_leaves)) * 4u <= P.length;
    let is_even = ALWAYS_EVEN || (is_full && P.log_lines == P.log_stride && P.log_lines <= LOG_GROUP_SIZE);
    return Tile(number, first_line, first_leaf, lines, leaves, slots, is_even, (GROUP_SIZE * 4u) >> P.log_stride);
}

// Line and first element of a slot's leaf; of the last that exists, where it does not.
fn place_of(tile: Tile, slot: u32) -> vec2<u32> {
    let line = min(line_of(slot), tile.lines - 1u);
    let leaf = min(leaf_of(slot), tile.leaves - 1u);
    return vec2(tile.first_line + line, (tile.first_leaf + leaf) * 4u);
}

fn exists(tile: Tile, slot: u32) -> bool {
    return slot < tile.slots && line_of(slot) < tile.lines && leaf_of(slot) < tile.leaves;
}

// Where a slot lies: bits of its row are mixed into the bank, so that steps of 4 and 16 slots hit different banks.
fn bank_of(slot: u32) -> u32 {
    return slot ^ ((slot >> 5u) & 31u);
}

// Where the slot `row` rows after a slot of the first row lies: as bank_of(slot + row * GROUP_SIZE), from bank_of(slot).
fn bank_in_row(bank: u32, row: u32) -> u32 {
    return bank ^ ((row * GROUP_SIZE) | ((row * (GROUP_SIZE >> 5u)) & 31u));
}

// Totals of all aligned blocks of the first `leaves` leaves of each line; the whole line's is in its last slot.
// A tile has 2^log_slots slots, of which 2^log_leaves in steps of 2^log_stride are one line's.
fn sweep(lane: u32, leaves: u32, log_leaves: u32, log_slots: u32) {
    for (var level = 0u; level < log_leaves; level += 4u) {
        workgroupBarrier();
        let log_join = min(level + 4u, log_leaves);
        let jobs = 1u << (log_slots - log_join);
        for (var job = lane; job < jobs; job += GROUP_SIZE) {
            let line = job & ((1u << P.log_stride) - 1u);
            let first = (job >> P.log_stride) << log_join;
            let blocks = Blocks(line, first, leaves - min(leaves, first & ((1u << log_leaves) - 1u)), 1u << level);
            if (blocks.rest >= 16u << level) {
                write_slot(last_slot(line, first + (16u << level)), join_whole_sixteen(line, first, 1u << level));
            } else if (blocks.rest > 0u) {
                write_slot(last_slot(line, first + (1u << log_join)), join_sixteen(blocks));
            }
        }
    }
    workgroupBarrier();
}

// Neighbouring blocks of `size` leaves from leaf `first` of a line; `rest` leaves exist from there.
struct Blocks {
    line: u32,
    first: u32,
    rest: u32,
    size: u32,
}

// The slot of the last leaf before leaf `end`.
fn last_slot(line: u32, end: u32) -> u32 {
    return bank_of(((end - 1u) << P.log_stride) + line);
}

fn keep(line: u32, end: u32, total: Acc) {
    if (KEEPS_BLOCKS) {
        write_slot(last_slot(line, end), total);
    }
}

// The total of four blocks that exist.
fn join_whole_four(line: u32, first: u32, size: u32) -> Acc {
    let left = combine(read_slot(last_slot(line, first + size)), read_slot(last_slot(line, first + 2u * size)));
    keep(line, first + 2u * size, left);
    let right = combine(read_slot(last_slot(line, first + 3u * size)), read_slot(last_slot(line, first + 4u * size)));
    return combine(left, right);
}

// The total of four times four blocks that exist.
fn join_whole_sixteen(line: u32, first: u32, size: u32) -> Acc {
    let four = 4u * size;
    let a = join_whole_four(line, first, size);
    keep(line, first + four, a);
    let left = combine(a, join_whole_four(line, first + four, size));
    keep(line, first + 2u * four, left);
    let c = join_whole_four(line, first + 2u * four, size);
    keep(line, first + 3u * four, c);
    return combine(left, combine(c, join_whole_four(line, first + 3u * four, size)));
}

// The total of up to four blocks; what has no right neighbour passes up.
fn join_four(at: Blocks) -> Acc {
    let line = at.line;
    let size = at.size;
    var total = read_slot(last_slot(line, at.first + size));
    if (at.rest > size) {
        total = combine(total, read_slot(last_slot(line, at.first + 2u * size)));
        keep(line, at.first + 2u * size, total);
    }
    if (at.rest > 2u * size) {
        var right = read_slot(last_slot(line, at.first + 3u * size));
        if (at.rest > 3u * size) {
            right = combine(right, read_slot(last_slot(line, at.first + 4u * size)));
        }
        total = combine(total, right);
    }
    return total;
}

// The total of up to four times four blocks.
fn join_sixteen(at: Blocks) -> Acc {
    let line = at.line;
    let four = 4u * at.size;
    var total = join_four(at);
    if (at.rest > four) {
        keep(line, at.first + four, total);
        total = combine(total, join_four(Blocks(line, at.first + four, at.rest - four, at.size)));
        keep(line, at.first + 2u * four, total);
    }
    if (at.rest > 2u * four) {
        var right = join_four(Blocks(line, at.first + 2u * four, at.rest - 2u * four, at.size));
        keep(line, at.first + 3u * four, right);
        if (at.rest > 3u * four) {
            let last = Blocks(line, at.first + 3u * four, at.rest - 3u * four, at.size);
            right = combine(right, join_four(last));
        }
        total = combine(total, right);
    }
    return total;
}
