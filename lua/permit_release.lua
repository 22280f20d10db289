-- Gives a part of the lock back, or leaves the line; in either case what is free goes to those in line.
-- KEYS lock queue fence
-- ARGV id keep(1: stay if granted meanwhile; with ! patient) lease claim retention kind limit weight visited rest(0: gives all back, else
--      how much of it stays mine)
-- Answers {was_owner passed_on more_wait now}, for a patient one perhaps {3 0 1 now} as in release.lua, for a keep that found itself owner {2 fence segment now}
local lock_key, queue_key, fence_key = KEYS[1], KEYS[2], KEYS[3]
local keep, patient = string.sub(ARGV[2], 1, 1) == '1', string.sub(ARGV[2], -1) == '!'
local id, lease, claim, retention = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local kind, asked_limit, weight, visited, rest = ARGV[6], tonumber(ARGV[7]), ARGV[8], ARGV[9], tonumber(ARGV[10])
local limit = asked_limit
-- @include lib/lock.lua
-- @include lib/permits.lua

if mine and keep then
  extend_part(lease)
  admit(nil, 0, 0)
  return {2, mine.fence, mine.segment, now}
end

local floor = 0
if mine and rest == 0 and one_is_awaited(limit - used + mine.weight) then
  return {3, 0, 1, now}
end
if not mine then
  redis.call('ZREM', queue_key, entry)
elseif rest > 0 then
  used = used - math.max(mine.weight - rest, 0)
  mine.weight = math.min(mine.weight, rest)
  floor = mine.fence
  write(id, mine)
else
  used = used - mine.weight
  floor = mine.fence
  mark(mine.segment, '0')
  redis.call('HDEL', lock_key, id)
  write()
end

local _, _, others, more_wait = admit(nil, 0, floor)
return {mine and 1 or 0, others > 0 and 1 or 0, more_wait and 1 or 0, now}
