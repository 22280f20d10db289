-- Gives the lock back, or leaves the queue; in either case a free lock goes to the next in the queue.
-- KEYS lock queue fence   ARGV id keep(1: stay if granted meanwhile; with ! patient) lease claim retention new_id('' or none: do not queue again)
-- and for a vote: floor, the fence of the lock it was a vote for; ahead, what a fence that is given now should be above, too (else both empty, or none)
-- and at a node of a Cluster: shard (lib/channel.lua)
-- With an id only, the rest is 0 30000 3000 630000, from the defaults of conch::config.
-- Answers 1, it was the owner's and the queue is empty (for a vote: and no fence is to be raised) · {was_owner passed_on more_wait now}, a keep that found itself owner: {2 fence 0 now},
-- (passed_on 2: it is free, and there are more unsubscribed waiters than one script passes over: repeat at once)
-- · for a patient one {3 0 1 now}: nothing is done, the first in the queue is not connected yet; repeat soon
-- with new_id followed by what acquire would answer for it: 1 fence, or 0 left ticket
local lock_key, queue_key, fence_key = KEYS[1], KEYS[2], KEYS[3]
local mode = ARGV[2] or '0'
local id, keep, new_id, vote_floor = ARGV[1], mode == '1' or mode == '1!', ARGV[6] ~= '' and ARGV[6] or nil, tonumber(ARGV[7])

-- Mostly it is given back by its owner, and the queue is empty: answered before anything is made that only the other cases
-- need.
local freed = false
local value = redis.call('GET', lock_key)
local plain = value and not (keep or new_id) and string.find(value, id .. ' ', 1, true) == 1
local line = plain and redis.call('ZCARD', queue_key)
if line == 0 and
   (not vote_floor or (tonumber(redis.call('GET', fence_key) or 0) or 0) >= vote_floor) then
  local deleted = redis.pcall('DEL', lock_key, lock_key .. ':a')
  if deleted == 1 then
    return 1
  end
  freed = deleted == 2
  if not freed and redis.call('DEL', lock_key) == 1 then -- a server that demands each key beforehand (lib/freed.lua)
    return 1
  end
end

local lease, claim, retention, shard = tonumber(ARGV[3] or 30000), tonumber(ARGV[4] or 3000), ARGV[5] or '630000', ARGV[9]
local patient, ahead = mode == '0!' or mode == '1!', tonumber(ARGV[8])
local watchers_key, alert_key = lock_key .. ':w', lock_key .. ':a'
-- @include lib/release.lua

if freed then
  tell_freed()
  return 1
end

return give_back(value, line)
