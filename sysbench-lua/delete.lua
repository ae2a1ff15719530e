-- One random id, which is not put back.

local directory = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local twin = dofile(directory .. "lib/twin.lua")

local delete

function thread_init()
  twin.connect()
  delete = twin.prepare("DELETE FROM sbtest1 WHERE id=?", twin.INT)
end

function event()
  delete {twin.uniform()}
end
