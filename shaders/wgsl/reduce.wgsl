// The total of each tile of each line.
//
//   line 0   tile 0 | tile 1 | tile 2 |      a workgroup takes one tile of 2^log_lines neighbouring lines:
//   line 1   tile 0 | tile 1 | tile 2 |      2^log_leaves leaves of four elements each
//
// 1. Every invocation loads leaves, eight rows at a time, and puts each one's total into workgroup memory. Leaves and lines that do not exist are loaded as the last that does, and never joined.
// 2. The tile's blocks are joined (tile.wgsl).
// 3. Each line's total is stored: as a result, or as an element of the next pass.
// Holes: load_quad (elements, or totals of an earlier pass), combine, store_total.

// The total of a whole leaf: left to right, or, of totals, a balanced tree.
fn whole_total(quad: Quad) -> Acc {
    let left = combine(quad.a, quad.b);
    if (LEAVES_ARE_BALANCED) {
        return combine(left, combine(quad.c, quad.d));
    }
    return combine(combine(left, quad.c), quad.d);
}

// The total of a leaf with `count` elements left in its line.
fn leaf_total(quad: Quad, count: u32) -> Acc {
    if (count >= 4u) {
        return whole_total(quad);
    }
    var total = quad.a;
    if (count > 1u) {
        total = combine(total, quad.b);
    }
    if (count > 2u) {
        total = combine(total, quad.c);
    }
    return total;
}

// The totals of four rows of whole leaves.
fn write_whole_rows(slot: u32, rows: Rows) {
    write_slot(bank_of(slot), whole_total(rows.a));
    write_slot(bank_of(slot + GROUP_SIZE), whole_total(rows.b));
    write_slot(bank_of(slot + 2u * GROUP_SIZE), whole_total(rows.c));
    write_slot(bank_of(slot + 3u * GROUP_SIZE), whole_total(rows.d));
}

// The totals of the leaves that exist of four rows.
fn write_rows(tile: Tile, slot: u32, rows: Rows) {
    write_row(tile, slot, rows.a);
    write_row(tile, slot + GROUP_SIZE, rows.b);
    write_row(tile, slot + 2u * GROUP_SIZE, rows.c);
    write_row(tile, slot + 3u * GROUP_SIZE, rows.d);
}

fn write_row(tile: Tile, slot: u32, quad: Quad) {
    if (slot < tile.slots) {
        write_slot(bank_of(slot), leaf_total(quad, P.length - place_of(tile, slot).y));
    }
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
    let tile = tile_of(group);
    if (tile.is_even) {
        var place = place_of(tile, lane);
        for (var row = 0u; row < tile.slots / GROUP_SIZE; row += 8u) {
            // Both halves load before either is used, so that eight loads are under way.
            let near = load_even_rows(tile, place);
            var far = near;
            if (SLOTS > 4u * GROUP_SIZE) {
                far = load_even_rows(tile, vec2(place.x, place.y + 4u * tile.row_step));
            }
            write_whole_rows(lane + row * GROUP_SIZE, near);
            if (SLOTS > 4u * GROUP_SIZE) {
                write_whole_rows(lane + (row + 4u) * GROUP_SIZE, far);
            }
            place.y += 8u * tile.row_step;
        }
    } else {
        for (var slot = lane; slot < tile.slots; slot += 4u * GROUP_SIZE) {
            write_rows(tile, slot, load_rows(tile, slot));
        }
    }
    sweep(lane, tile.leaves, P.log_leaves, P.log_leaves + P.log_lines);
    let last_leaf = (1u << P.log_leaves) - 1u;
    for (var line = lane; line < tile.lines; line += GROUP_SIZE) {
        let slot = select(line << P.log_leaves, line, P.log_stride != 0u) + (last_leaf << P.log_stride);
        store_total(tile.first_line + line, tile.number, read_slot(bank_of(slot)));
    }
}
