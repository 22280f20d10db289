-- Takes the lock, or joins its queue.
-- KEYS lock queue fence   ARGV id mode(wait|try, with ! patient) lease claim retention ticket(0 or none: none) not_after(0 or none: none)
-- and for a vote, which is one server's part of a lock over several: proposal, the least fence to grant (else empty, or none)
-- and at a node of a Cluster: shard (lib/channel.lua)
-- With an id only, the rest is wait 30000 3000 630000, from the defaults of conch::config.
-- Answers FENCE, granted with the time that the clock showed · -NOW, granted with the fence that was proposed
-- · {1 fence now} granted · {0 left now ticket} queued · {2 left now} busy · {3 0 now} too late to be done
-- · {4 0 now ticket(0: a try)} not known yet, there are too many unsubscribed waiters: ask again at once
-- If queued or busy because this script passed the lock on, a fifth number: 1 if there are waiters behind its new owner
-- A vote is a claim until it is confirmed; the answers "queued" and "busy" also name the holder (see rival).
local lock_key, queue_key, fence_key = KEYS[1], KEYS[2], KEYS[3]
local id, lease, retention, not_after, proposal = ARGV[1], ARGV[3] or '30000', ARGV[5] or '630000', ARGV[7], tonumber(ARGV[8])
-- @include lib/clock.lua

if not_after and not_after ~= '0' and now > tonumber(not_after) then
  return {3, 0, now}
end

-- Mostly it is free, and the queue is empty: answered before anything is made that only the other cases need.
local is_free = redis.call('EXISTS', lock_key, queue_key) == 0
local found
if is_free and not proposal and clock > 0 then
  local digits = string.format('%.0f', clock)
  -- @include lib/take_free.lua
  if taken then
    return clock
  end
  found = before
end

local state_of_mine = proposal and 'c' or 'h'
local floor = (proposal or 1) - 1
-- @include lib/own.lua

if is_free then
  local fence, digits = next_fence(floor, found)
  own(id, digits, state_of_mine, lease)
  return granted(fence, proposal)
end

local mode = ARGV[2] or 'wait'
local wait, patient = mode == 'wait' or mode == 'wait!', string.sub(mode, -1) == '!'
local claim, ticket, shard = tonumber(ARGV[4] or 3000), tonumber(ARGV[6] or 0), ARGV[9]
lease = tonumber(lease)
-- @include lib/acquire.lua

local answer = ask(redis.call('GET', lock_key))
if answer then
  return answer
end
-- @include lib/acquire_free.lua

return take()
