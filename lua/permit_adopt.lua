-- Takes over a part of a lock with several owners that its owner has detached: from now on it belongs to `id`.
-- KEYS lock queue fence ends
-- ARGV id lease retention not_after(0: none) origin("ID FENCE", as the owner that detached it had it) kind
-- Answers {1 fence now segment} it belongs to `id`, with the weight, fence and segment that it had · {2 0 now} it is not the origin's any more
-- · {3 0 now} too late to be done. Like a renewal it frees nothing, and so looks at no waiter.
local lock_key, queue_key, fence_key, ends_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, lease, retention, not_after, kind = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[6]
local from, its_fence = string.match(ARGV[5], '^(%S+) (%d+)$')
-- @include lib/line.lua
-- @include lib/part.lua
-- @include lib/keep.lua

if not_after > 0 and now > not_after then
  return {3, 0, now}
end
-- The write changes nothing. At a replica, which may not know the origin yet, the script fails here; and at full memory the next one may need some.
redis.call('ZREM', queue_key, '')
local function gone()
  return {2, 0, now}
end

local known = redis.call('HMGET', lock_key, 'sums', id, from or '')
if not known[1] then
  if redis.call('EXISTS', lock_key) == 1 then
    return not_a_lock()
  end
  return gone()
end
local its_kind, _, _, _, _, _, indexed = parse_sums(known[1])
if its_kind ~= kind then
  return not_a_lock()
end

local function alive(part)
  return part and part.weight > 0 and part.ends > now and part
end
local mine, part = alive(parse_part(known[2])), alive(parse_part(known[3]))
if mine then
  mine.state, mine.ends = 'h', math.max(mine.ends, now + lease * 1000)
  redis.call('HSET', lock_key, id, part_text(mine))
elseif part and text(part.fence) == its_fence then
  -- Not before its end so far, which FIRST_END may be: the clock may have gone back.
  mine = {weight = part.weight, fence = part.fence, state = 'h', ends = math.max(part.ends, now + lease * 1000), segment = part.segment}
  part.weight, part.segment = 0, 0
  -- The new owner is in the set of ends before it is an owner, and the old one is written down as nothing in the step that makes the new
  -- one: a script that ends half-way leaves no owner out and counts none twice.
  if indexed then
    redis.call('ZADD', ends_key, text(mine.ends), id)
    redis.call('PEXPIRE', ends_key, lease + retention)
  end
  redis.call('HSET', lock_key, id, part_text(mine), from, part_text(part))
  redis.call('HDEL', lock_key, from)
  if indexed then
    redis.call('ZREM', ends_key, from)
  end
else
  return gone()
end
if redis.call('PTTL', lock_key) < lease then
  redis.call('PEXPIRE', lock_key, lease)
end
keep_fence(fence_key, mine.fence, retention)
return {1, mine.fence, now, mine.segment}
