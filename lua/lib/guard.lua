-- What a guarded write asks first: does this grant still own the lock? For scripts of users: it defines nothing else, and includes nothing.
-- GRANT is what write_guard::grant() gives: "ID FENCE" of a mutex, "ID FENCE LEAST" of a lock with several owners, where LEAST is the
-- least share that the owner must still have. The values are described in docs/protocol.md.
local function conch_is_owner(key, grant)
  local id, fence, least = string.match(grant or '', '^(%S+) (%d+) ?(%d*)$')
  if not id then
    return false
  end
  local question = least == '' and {'GET', key} or {'HGET', key, id}
  local value = redis.pcall(unpack(question))
  if type(value) == 'table' then
    if string.find(value.err, 'WRONGTYPE', 1, true) then
      return false
    end
    redis.call(unpack(question)) -- fails once more, and ends the script with the server's words
  end
  if not value then
    return false
  elseif least == '' then
    return string.sub(value, 1, #grant + 1) == grant .. ' '
  end
  local share, its_fence, ends = string.match(value, '^(%d+) (%d+) [hc] (%d+) %d+$')
  local time = redis.call('TIME')
  return its_fence == fence and tonumber(share) >= tonumber(least) and tonumber(ends) > time[1] * 1000000 + time[2]
end
