-- Runs one command of a user if the lock still belongs to the hold that GRANT names (conch::guarded_command).
-- KEYS lock key   ARGV grant command argument...
-- Answers what the command answers, or the error NOTOWNER: nothing was written.
-- @include lib/guard.lua
if not conch_is_owner(KEYS[1], ARGV[1]) then
  return redis.error_reply('NOTOWNER the lock does not belong to this hold any more, and nothing was written')
end
return redis.pcall(ARGV[2], KEYS[2], unpack(ARGV, 3))
