-- The four writes of read-write in one transaction.

local directory = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local twin = dofile(directory .. "lib/twin.lua")
local transaction = dofile(directory .. "lib/transaction.lua")

local begin, commit, writes

function thread_init()
  twin.connect()
  begin, commit = twin.prepare("BEGIN"), twin.prepare("COMMIT")
  writes = transaction.writes(twin)
end

function event()
  begin {}
  writes()
  commit {}
end
