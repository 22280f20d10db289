-- Asks for a mutex that has an owner or waiters: for lua/acquire.lua, and for each lock of lua/gathered.lua. The caller defines
-- lock_key, queue_key, fence_key, and of the request: id, wait, patient, lease, claim, retention, ticket, proposal, shard.
-- @include lib/lock.lua

-- For a vote, its holder: the first 48 bits of the client, the ticket, 1 if confirmed. A vote's id is CLIENT.N, where
-- N begins with the ticket, and three digits of the attempt. Any other client has no ticket.
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

-- The holder of the lock that was asked for last, its remaining lease and state; and the fence of the asker's claim that has become a hold.
local owner, left, state, confirmed

-- Answers for a lock of this value. Nothing: it is free, or some client may have to be told something, and take() continues.
local function ask(value)
  owner, left, state, confirmed = nil, nil, nil, nil
  if value then
    local fence
    owner, fence, state = parse(value)
    if not owner then
      return not_a_lock()
    end
    if owner == id then
      if extend(lock_key, id, fence, proposal and 'h' or state, lease) then
        confirmed = tonumber(fence)
        return nil
      end
      return {1, tonumber(fence), now}
    end
    left = redis.call('PTTL', lock_key)
    left = left == -1 and longest_lease or left
    if not wait then
      return rival({2, left, now}, owner, state)
    end
    ticket = enqueue(id, ticket, left, lease)
    if not patient then
      return rival({0, left, now, ticket}, owner, state)
    end
  end
end
