-- One row by primary key.

local directory = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local twin = dofile(directory .. "lib/twin.lua")

local point

function thread_init()
  twin.connect()
  point = twin.prepare("SELECT c FROM sbtest1 WHERE id=?", twin.INT)
end

function event()
  point {twin.uniform()}
end
