-- What each owner of a lock with several owners has in the hash: "WEIGHT FENCE STATE ENDS SEGMENT", STATE as in lib/lock.lua,
-- ENDS in server time (µs), SEGMENT 0 if there are none.

local function parse_part(value)
  local weight, fence, state, ends, segment = string.match(value or '', '^(%d+) (%d+) ([hc]) (%d+) (%d+)$')
  if not weight then
    return nil
  end
  return {weight = tonumber(weight), fence = tonumber(fence), state = state, ends = tonumber(ends), segment = tonumber(segment)}
end

local function part_text(part)
  return string.format('%d %.0f %s %.0f %d', part.weight, part.fence, part.state, part.ends, part.segment)
end

-- What they have in common: "KIND LIMIT TAKEN FIRST_END SET MAP". Answers nothing if it is not that. A 0 before FIRST_END means that
-- all owners are in the sorted set of ends: a script of 0.1.0, which knows nothing of the set, takes it off when it writes.
local function parse_sums(value)
  local kind, limit, taken, indexed, first_end, set, map = string.match(value or '', '^([KIND_LETTERS]) (%d+) (%d+) (0?)(%d+) ([01]) (.*)$')
  return kind, tonumber(limit), tonumber(taken), tonumber(first_end), set == '1', map, indexed == '0'
end
