-- What a vote needs beyond lib/time.lua.

-- No fence given here from now on is at or below `floor`: the fence of a quorum is the greatest of its votes.
-- Answers the one before.
local function raise_fence(key, floor, kept_for)
  local before = math.max(0, math.min(9007199254740991, tonumber(redis.call('GET', key) or 0) or 0))
  if before < floor then
    local ahead = math.max(floor - clock, 0)
    local lives = text(kept_for + math.ceil(ahead / 1000))
    redis.call('PEXPIRE', key, lives) -- at full memory the server lets a script write a text only after a write that needs no memory
    redis.call('SET', key, text(floor), 'PX', lives)
  end
  return before
end
