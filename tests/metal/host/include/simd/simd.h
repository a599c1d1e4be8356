// naga includes it for packed vectors; metal_stdlib has them here.
#pragma once
