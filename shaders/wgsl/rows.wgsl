// Leaves as an invocation of a reduction or scan holds them: in registers, four rows of the tile at a time.
//
// They are fields and not an array, since an array indexed by a loop would live in memory (measured in a scan: half the
// speed). Hole: load_quad.

// Four rows of a lane: the leaves of slots GROUP_SIZE apart.
struct Rows {
    a: Quad,
    b: Quad,
    c: Quad,
    d: Quad,
}

// Line and first element of each.
struct Places {
    a: vec2<u32>,
    b: vec2<u32>,
    c: vec2<u32>,
    d: vec2<u32>,
}

// The places of rows `row` to `row + 3` of a lane, whose first row is at `start`. In an even tile they are equal steps
// apart; in any other, what does not exist is at the last place that does.
fn places_of(tile: Tile, lane: u32, row: u32, start: vec2<u32>) -> Places {
    if (tile.is_even) {
        let first = start.y + row * tile.row_step;
        return Places(
            vec2(start.x, first),
            vec2(start.x, first + tile.row_step),
            vec2(start.x, first + 2u * tile.row_step),
            vec2(start.x, first + 3u * tile.row_step),
        );
    }
    let slot = lane + row * GROUP_SIZE;
    return Places(
        place_of(tile, slot),
        place_of(tile, slot + GROUP_SIZE),
        place_of(tile, slot + 2u * GROUP_SIZE),
        place_of(tile, slot + 3u * GROUP_SIZE),
    );
}

fn load_rows(at: Places) -> Rows {
    return Rows(
        load_quad(at.a.x, at.a.y),
        load_quad(at.b.x, at.b.y),
        load_quad(at.c.x, at.c.y),
        load_quad(at.d.x, at.d.y),
    );
}
