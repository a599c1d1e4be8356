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

fn load_rows(tile: Tile, slot: u32) -> Rows {
    let a = place_of(tile, slot);
    let b = place_of(tile, slot + GROUP_SIZE);
    let c = place_of(tile, slot + 2u * GROUP_SIZE);
    let d = place_of(tile, slot + 3u * GROUP_SIZE);
    return Rows(load_quad(a.x, a.y), load_quad(b.x, b.y), load_quad(c.x, c.y), load_quad(d.x, d.y));
}

// The same in an even tile, from a lane's place in the first of the rows.
fn load_even_rows(tile: Tile, place: vec2<u32>) -> Rows {
    return Rows(
        load_quad(place.x, place.y),
        load_quad(place.x, place.y + tile.row_step),
        load_quad(place.x, place.y + 2u * tile.row_step),
        load_quad(place.x, place.y + 3u * tile.row_step),
    );
}
