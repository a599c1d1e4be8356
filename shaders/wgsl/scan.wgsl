// The running combination within each tile of each line, after the blocks of tiles to its left.
//
// 1. Every invocation loads leaves, runs through each from the left, keeps the values in registers and puts the leaf's
//    total into workgroup memory.
// 2. The tile's blocks are joined, and every block's total kept (tile.wgsl).
// 3. To each leaf's values come the totals of the blocks to its left, at most one per level: first those of the tile,
//    from the nearest and smallest to the largest, then those of earlier tiles, which the spine left in the same
//    arrangement. A leaf needs the block of level k where bit k of its number is set.
//
// A lane's leaves are GROUP_SIZE slots apart, up to sixteen, in four times four rows (rows.wgsl).
// Holes: load_quad, combine, load_total (one of an earlier tile), store_quad (applies finish).

const ROWS: u32 = SLOTS / GROUP_SIZE;

// The running combination within a leaf.
fn run(quad: Quad) -> Quad {
    let b = combine(quad.a, quad.b);
    let c = combine(b, quad.c);
    return Quad(quad.a, b, c, combine(c, quad.d));
}

fn after(left: Acc, quad: Quad) -> Quad {
    return Quad(combine(left, quad.a), combine(left, quad.b), combine(left, quad.c), combine(left, quad.d));
}

// The slot of the block to the left of a slot whose bit `bit` is set.
fn left_of(slot: u32, bit: u32) -> u32 {
    let line = slot & ((1u << P.log_stride) - 1u);
    return ((slot >> bit) << bit) - (1u << P.log_stride) + line;
}

// ---- Any tile: leaves one by one, loaded twice.

// A line's last leaf may be shorter, and its total rubbish, but nothing is to the right of it. What does not exist gets
// the last leaf's total that does, since the lines of a tile are joined whether they exist or not.
fn run_tile(tile: Tile, lane: u32) {
    for (var slot = lane; slot < tile.slots; slot += GROUP_SIZE) {
        let at = place_of(tile, slot);
        write_slot(bank_of(slot), run(load_quad(at.x, at.y)).d);
    }
}

fn scan_tile(tile: Tile, lane: u32) {
    for (var slot = lane; slot < tile.slots; slot += GROUP_SIZE) {
        if (exists(tile, slot)) {
            let at = place_of(tile, slot);
            var quad = run(load_quad(at.x, at.y));
            for (var bit = P.log_stride; bit < P.log_stride + P.log_leaves; bit++) {
                if (((slot >> bit) & 1u) != 0u) {
                    quad = after(read_slot(bank_of(left_of(slot, bit))), quad);
                }
            }
            if (READS_TOTALS) {
                for (var blocks = tile.number; blocks != 0u; blocks &= blocks - 1u) {
                    quad = after(load_total(at.x * P.tiles + blocks - 1u), quad);
                }
            }
            store_quad(at.x, at.y, quad);
        }
    }
}

// ---- An even tile: all leaves of a lane in registers.

// All rows of a lane. Those that the kernel has no room for are copies that nothing uses.
struct Leaves {
    p: Rows,
    q: Rows,
    r: Rows,
    s: Rows,
}

fn load_leaves(tile: Tile, start: vec2<u32>) -> Leaves {
    let p = load_even_rows(tile, start, 0u);
    var leaves = Leaves(p, p, p, p);
    if (ROWS > 4u) {
        leaves.q = load_even_rows(tile, start, 4u);
    }
    if (ROWS > 8u) {
        leaves.r = load_even_rows(tile, start, 8u);
        leaves.s = load_even_rows(tile, start, 12u);
    }
    return leaves;
}

// Runs through every leaf and puts its total.
fn run_leaves(lane: u32, leaves: Leaves) -> Leaves {
    var out = leaves;
    out.p = run_rows(lane, leaves.p);
    if (ROWS > 4u) {
        out.q = run_rows(lane + 4u * GROUP_SIZE, leaves.q);
    }
    if (ROWS > 8u) {
        out.r = run_rows(lane + 8u * GROUP_SIZE, leaves.r);
        out.s = run_rows(lane + 12u * GROUP_SIZE, leaves.s);
    }
    return out;
}

fn run_rows(slot: u32, rows: Rows) -> Rows {
    let out = Rows(run(rows.a), run(rows.b), run(rows.c), run(rows.d));
    write_slot(bank_of(slot), out.a.d);
    write_slot(bank_of(slot + GROUP_SIZE), out.b.d);
    write_slot(bank_of(slot + 2u * GROUP_SIZE), out.c.d);
    write_slot(bank_of(slot + 3u * GROUP_SIZE), out.d.d);
    return out;
}

fn rows_after(left: Acc, rows: Rows) -> Rows {
    return Rows(after(left, rows.a), after(left, rows.b), after(left, rows.c), after(left, rows.d));
}

// All leaves after one block that is to the left of them all.
fn leaves_after(left: Acc, leaves: Leaves) -> Leaves {
    var out = leaves;
    out.p = rows_after(left, leaves.p);
    if (ROWS > 4u) {
        out.q = rows_after(left, leaves.q);
    }
    if (ROWS > 8u) {
        out.r = rows_after(left, leaves.r);
        out.s = rows_after(left, leaves.s);
    }
    return out;
}

// Leaves after the blocks to their left at a level below a row, which all rows of the lane have or none. The left slots
// are apart as the rows are.
fn leaves_after_left(lane: u32, bit: u32, leaves: Leaves) -> Leaves {
    let left = bank_of(left_of(lane, bit));
    var out = leaves;
    out.p = rows_after_left(left, 0u, leaves.p);
    if (ROWS > 4u) {
        out.q = rows_after_left(left, 4u, leaves.q);
    }
    if (ROWS > 8u) {
        out.r = rows_after_left(left, 8u, leaves.r);
        out.s = rows_after_left(left, 12u, leaves.s);
    }
    return out;
}

fn rows_after_left(left: u32, row: u32, rows: Rows) -> Rows {
    return Rows(
        after(read_slot(bank_in_row(left, row)), rows.a),
        after(read_slot(bank_in_row(left, row + 1u)), rows.b),
        after(read_slot(bank_in_row(left, row + 2u)), rows.c),
        after(read_slot(bank_in_row(left, row + 3u)), rows.d),
    );
}

// The same at a level above a row, which a row has by its number.
fn leaves_after_some(lane: u32, bit: u32, leaves: Leaves) -> Leaves {
    var out = leaves;
    out.p = rows_after_some(lane, 0u, bit, leaves.p);
    if (ROWS > 4u) {
        out.q = rows_after_some(lane, 4u, bit, leaves.q);
    }
    if (ROWS > 8u) {
        out.r = rows_after_some(lane, 8u, bit, leaves.r);
        out.s = rows_after_some(lane, 12u, bit, leaves.s);
    }
    return out;
}

fn rows_after_some(lane: u32, row: u32, bit: u32, rows: Rows) -> Rows {
    return Rows(
        after_some(lane, row, bit, rows.a),
        after_some(lane, row + 1u, bit, rows.b),
        after_some(lane, row + 2u, bit, rows.c),
        after_some(lane, row + 3u, bit, rows.d),
    );
}

fn after_some(lane: u32, row: u32, bit: u32, quad: Quad) -> Quad {
    if ((((row * GROUP_SIZE) >> bit) & 1u) == 0u) {
        return quad;
    }
    return after(read_slot(bank_of(left_of(lane + row * GROUP_SIZE, bit))), quad);
}

// Fetches totals of blocks of earlier tiles, eight per line: lane l that of the (l / 32)-th block to the left, of line
// l % 32. `blocks` is a tile number whose set bits are the blocks still to come. A tile of several to a line has at most
// 32 lines.
fn fetch_earlier(tile: Tile, lane: u32, blocks: u32) {
    var left = blocks;
    for (var skip = lane / 32u; skip != 0u; skip--) {
        left &= left - 1u;
    }
    if (left != 0u) {
        let line = tile.first_line + min(lane % 32u, tile.lines - 1u);
        write_earlier(lane, load_total(line * P.tiles + left - 1u));
    }
}

fn store_leaves(tile: Tile, start: vec2<u32>, leaves: Leaves) {
    store_rows(tile, start, 0u, leaves.p);
    if (ROWS > 4u) {
        store_rows(tile, start, 4u, leaves.q);
    }
    if (ROWS > 8u) {
        store_rows(tile, start, 8u, leaves.r);
        store_rows(tile, start, 12u, leaves.s);
    }
}

fn store_rows(tile: Tile, start: vec2<u32>, row: u32, rows: Rows) {
    let i = start.y + row * tile.row_step;
    store_quad(start.x, i, rows.a);
    store_quad(start.x, i + tile.row_step, rows.b);
    store_quad(start.x, i + 2u * tile.row_step, rows.c);
    store_quad(start.x, i + 3u * tile.row_step, rows.d);
}

// The leaves of a swept tile after everything to their left.
fn scan_leaves(tile: Tile, lane: u32, run: Leaves) -> Leaves {
    var leaves = run;
    let end = P.log_stride + P.log_leaves;
    for (var bit = P.log_stride; bit < min(end, LOG_GROUP_SIZE); bit++) {
        if (((lane >> bit) & 1u) != 0u) {
            leaves = leaves_after_left(lane, bit, leaves);
        }
    }
    for (var bit = max(P.log_stride, LOG_GROUP_SIZE); bit < end; bit++) {
        leaves = leaves_after_some(lane, bit, leaves);
    }
    if (READS_TOTALS) {
        let line = line_of(lane) % 32u;
        var blocks = tile.number;
        for (var fetched = 8u; blocks != 0u; blocks &= blocks - 1u) {
            if (fetched == 0u) {
                workgroupBarrier();
                fetch_earlier(tile, lane, blocks);
                workgroupBarrier();
                fetched = 8u;
            }
            leaves = leaves_after(read_earlier((8u - fetched) * 32u + line), leaves);
            fetched -= 1u;
        }
    }
    return leaves;
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let group = id.x + id.y * count.x;
    if (group >= P.groups) {
        return;
    }
    // The last elements that the pass before has read are still in the cache, so this one begins with them.
    let tile = tile_of(select(group, P.groups - 1u - group, READS_TOTALS));
    let start = place_of(tile, lane);
    var leaves: Leaves;
    if (tile.is_even) {
        if (READS_TOTALS) {
            fetch_earlier(tile, lane, tile.number);
        }
        leaves = run_leaves(lane, load_leaves(tile, start));
    } else {
        run_tile(tile, lane);
    }
    sweep(lane, tile.leaves, P.log_leaves, P.log_leaves + P.log_lines);
    if (tile.is_even) {
        store_leaves(tile, start, scan_leaves(tile, lane, leaves));
    } else {
        scan_tile(tile, lane);
    }
}
