-- Takes the lock, or stands in line for it.
-- KEYS lock queue fence   ARGV id mode(wait|try, with ! patient) lease claim retention ticket(0: none) not_after(0: none)
-- and for a vote, which is one server's part of a lock over several: proposal, the least fence to grant (else empty, or none)
-- and at a node of a Cluster: shard (lib/channel.lua)
-- Answers FENCE, granted when the clock showed what the fence says · -NOW, granted with the fence that was proposed
-- · {1 fence now} granted · {0 left now ticket} in line · {2 left now} busy · {3 0 now} too late to be done
-- · {4 0 now ticket(0: a try)} not known yet, there are too many in line who do not hear: to be asked again at once
-- In line or busy because this script passed the lock on, a fifth number: 1 if somebody waits behind its new owner
-- A vote is a claim until it is confirmed; to be in line or busy is followed by who has it (see rival).
local lock_key, queue_key, fence_key = KEYS[1], KEYS[2], KEYS[3]
local id, lease, retention, not_after, proposal = ARGV[1], ARGV[3], ARGV[5], ARGV[7], tonumber(ARGV[8])
local state_of_mine = proposal and 'c' or 'h'
local floor = (proposal or 1) - 1
-- @include lib/own.lua

if not_after ~= '0' and now > tonumber(not_after) then
  return {3, 0, now}
end

-- Mostly nobody has it, and nobody is in line: answered before anything is made that only the other cases need.
if redis.call('EXISTS', lock_key, queue_key) == 0 then
  local fence, digits = next_fence(floor)
  own(id, digits, state_of_mine, lease)
  return granted(fence, proposal)
end

local wait, patient = ARGV[2] == 'wait' or ARGV[2] == 'wait!', string.sub(ARGV[2], -1) == '!'
local claim, ticket, shard = tonumber(ARGV[4]), tonumber(ARGV[6]), ARGV[9]
lease = tonumber(lease)
-- @include lib/lock.lua

-- For a vote who has it: the first 48 bits of the client, the ticket, 1 if confirmed. A vote's id is CLIENT.N, where
-- N begins with the ticket, and three digits of the attempt. Anybody else is somebody without a ticket.
local function rival(answer, owner, state)
  if proposal then
    local client, owners_ticket = string.match(owner, '^(%w+)%.(%d+)%d%d%d')
    answer[4] = answer[4] or 0
    answer[5] = client and tonumber(string.sub(client, 1, 12), 16) or 0
    answer[6] = tonumber(owners_ticket) or 0
    answer[7] = state == 'h' and 1 or 0
  end
  return answer
end

local value = redis.call('GET', lock_key)
local owner, state, left
if value then
  local fence
  owner, fence, state = parse(value)
  if not owner then
    return not_a_lock()
  end
  if owner == id then
    extend(lock_key, id, fence, proposal and 'h' or state, lease)
    return {1, tonumber(fence), now}
  end
  left = redis.call('PTTL', lock_key)
  if not wait then
    return rival({2, left, now}, owner, state)
  end
  ticket = enqueue(id, ticket, left, lease)
  if not patient then
    return rival({0, left, now, ticket}, owner, state)
  end
end
-- @include lib/pass_on.lua

exact = true

if owner then
  awaited(id, 0)  -- nobody yet, but they are told to come: who has the lock may never give it back
  return rival({0, left, now, ticket}, owner, state)
end

if wait then
  ticket = enqueue(id, ticket, claim, lease)
end
local absent = patient and awaited(id, 1)
if absent then
  local soon = 20
  return rival(wait and {0, soon, now, ticket} or {2, soon, now}, absent, 'c')
end
local fence, taken, unfinished = pass_on(id, lease, floor, state_of_mine)
if unfinished then
  return {4, 0, now, wait and ticket or 0}
end
if taken and not fence then
  local answer = wait and {0, claim, now, ticket} or {2, claim, now, 0}
  if not proposal then
    answer[5] = redis.call('EXISTS', queue_key)
  end
  return rival(answer, taken, 'c')
end
if not taken then
  local digits
  fence, digits = next_fence(floor)
  own(id, digits, state_of_mine, lease)
end
return granted(fence, proposal)
