-- Sets the limit of a semaphore for all, in use or not. What is given out stays given out; what a greater limit frees goes to
-- the waiters.
-- KEYS lock queue fence ends   ARGV claim retention limit, and to change it: by unset (else both empty, or none); shard (lib/channel.lua)
--   by: is added to the present limit, or to `limit` if nothing is known of the lock; 0: `limit` is the new one
--   unset: 1: does nothing if the limit was set before
-- Answers {how much is given out, now}, then if it passed something on, 1 if there are waiters behind its new owners; 2 more: there was more
-- to do than one script does, and the client must repeat a release at once. With `by` always the third, and a fourth number: the limit from now on
local lock_key, queue_key, fence_key, ends_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local claim, retention, asked_limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local id, kind, weight, visited = '-', 'KIND_SEMAPHORE', '0', '-'
local limit, patient, shard = asked_limit, false, ARGV[6]
-- @include lib/line.lua
-- @include lib/known.lua
-- @include lib/permits.lua

redis.call('ZREM', queue_key, '') -- changes nothing: at full memory the next write may need some
local by, most, changes = tonumber(ARGV[4]) or 0, MOST_PERMITS, ARGV[4] and ARGV[4] ~= ''
if not (was_set and ARGV[5] == '1') then
  was_set, limit = '1', by ~= 0 and math.min(math.max(limit + by, 1), most) or asked_limit
  write()
end
local _, _, others, more = admit(nil, 0, 0)
more = more and (others > 0 and 1 or 0) + (unfinished and 2 or 0) or 0
if changes then
  return {used, now, more, limit}
end
return {used, now, (others > 0 or more > 0) and more or nil}
