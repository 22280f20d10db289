-- Sets the limit of a semaphore for all, in use or not. What is given out stays given out; what a greater limit frees goes to
-- those in line.
-- KEYS lock queue fence ends   ARGV claim retention limit
-- Answers {how much is given out, now}, then if it passed something on, 1 if somebody waits behind its new owners; 2 more: there was more
-- to do than one script does, somebody is to repeat a release at once
local lock_key, queue_key, fence_key, ends_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local claim, retention, asked_limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local id, kind, weight, visited = '-', 's', '0', '-'
local limit, patient = asked_limit, false
-- @include lib/line.lua
-- @include lib/known.lua
-- @include lib/permits.lua

was_set, limit = '1', asked_limit
write()
local _, _, others, more = admit(nil, 0, 0)
more = more and (others > 0 and 1 or 0) + (unfinished and 2 or 0) or 0
return {used, now, (others > 0 or more > 0) and more or nil}
