-- Gives the lock back, or leaves the line; in either case a free lock goes to the next in line.
-- KEYS lock queue fence   ARGV id keep(1: stay if granted meanwhile; with ! patient) lease claim retention new_id('': do not stand in line again)
-- and for a vote: floor, the fence of the lock it was a vote for; ahead, what a fence that is given now should be above, too (else both empty, or none)
-- and at a node of a Cluster: shard (lib/channel.lua)
-- Answers 1, it was the owner's and nobody is in line (for a vote: and no fence is to be raised) · {was_owner passed_on more_wait now}, for a keep that found itself owner {2 fence 0 now},
-- (passed_on 2: it is free, and there are more in line who do not hear than one script passes over: to be repeated at once)
-- · for a patient one {3 0 1 now}: nothing is done, the first in line is not there yet; to be repeated soon
-- with new_id followed by what acquire would answer for it: 1 fence, or 0 left ticket
local lock_key, queue_key, fence_key = KEYS[1], KEYS[2], KEYS[3]
local mode = ARGV[2]
local id, keep, new_id, vote_floor = ARGV[1], mode == '1' or mode == '1!', ARGV[6] ~= '' and ARGV[6] or nil, tonumber(ARGV[7])

-- Mostly it is given back by its owner, and nobody is in line: answered before anything is made that only the other cases
-- need.
local freed = false
local value = redis.call('GET', lock_key)
local plain = value and not (keep or new_id) and string.find(value, id .. ' ', 1, true) == 1
local line = plain and redis.call('ZCARD', queue_key)
if line == 0 and
   (not vote_floor or (tonumber(redis.call('GET', fence_key) or 0) or 0) >= vote_floor) then
  if redis.call('DEL', lock_key, lock_key .. ':a') == 1 then
    return 1
  end
  freed = true
end

local lease, claim, retention, shard = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[9]
local patient = mode == '0!' or mode == '1!'
-- @include lib/lock.lua
-- @include lib/pass_on.lua
-- @include lib/vote.lua
-- @include lib/freed.lua

if freed then
  tell_freed()
  return 1
end

local was_owner, floor = 0, math.max(vote_floor or 0, tonumber(ARGV[8]) or 0)

local function free()
  if redis.call('DEL', lock_key, alert_key) > was_owner then
    tell_freed()
  end
end

if value then
  local owner, fence, state = parse(value)
  if not owner then
    return not_a_lock()
  end
  if owner == id then
    if keep then
      extend(lock_key, id, fence, vote_floor and 'h' or state, lease)
      return {2, tonumber(fence), 0, now}
    end
    was_owner, floor = 1, math.max(floor, tonumber(fence))
  end
end
if vote_floor then
  raise_fence(fence_key, vote_floor, retention)
end

exact = patient or was_owner == 0
if was_owner == 0 then
  redis.call('ZREM', queue_key, id)
  if value then
    if not new_id then
      return {0, 0, 0, now}
    end
    local left = redis.call('PTTL', lock_key)
    return {0, 0, 1, now, 0, left, (enqueue(new_id, 0, left, lease))}
  end
end

-- It stays its owner's; or, if it is free, whoever is in line asks again, and then it goes to the first.
if patient and awaited(nil, 1) then
  return {was_owner == 1 and 3 or 0, 0, 1, now}
end

gives_back = was_owner == 1 and lock_key
line = line or redis.call('ZCARD', queue_key)
if line == 0 then
  if new_id then
    local fence, digits = next_fence(floor)
    own(new_id, digits, 'h', lease)
    return {was_owner, 0, 0, now, 1, fence}
  end
  free()
  return {was_owner, 0, 0, now}
end

local ticket, is_new
if new_id then
  ticket, is_new = enqueue(new_id, 0, claim, lease)
  line = is_new and line + 1 or line
end
local fence, taken, unfinished, left_line = pass_on(new_id, lease, floor)
if unfinished then
  redis.call('DEL', lock_key)
elseif not taken then
  free()
end
local more = line > left_line and 1 or 0
if fence then
  return {was_owner, 0, more, now, 1, fence}
end
if new_id then
  return {was_owner, unfinished and 2 or 1, more, now, 0, claim, ticket}
end
return {was_owner, taken and 1 or unfinished and 2 or 0, more, now}
