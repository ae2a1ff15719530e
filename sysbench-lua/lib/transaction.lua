-- The reads and the writes that read-only, read-write and write-only are made of. Call each with the
-- shared library when the connection is there; it prepares the statements and returns a function that
-- executes them.

local transaction = {}

function transaction.reads(twin, range)
  local INT, uniform = twin.INT, twin.uniform
  local point = twin.prepare("SELECT c FROM sbtest1 WHERE id=?", INT)
  local ranges = {
    twin.prepare("SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?", INT, INT),
    twin.prepare("SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ? AND ?", INT, INT),
    twin.prepare("SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c", INT, INT),
    twin.prepare("SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c", INT, INT),
  }
  return function()
    for _ = 1, 10 do
      point {uniform()}
    end
    for i = 1, #ranges do
      local first = uniform()
      ranges[i] {first, first + range - 1}
    end
  end
end

function transaction.writes(twin)
  local INT, uniform = twin.INT, twin.uniform
  local update_k = twin.prepare("UPDATE sbtest1 SET k=k+1 WHERE id=?", INT)
  local update_c = twin.prepare("UPDATE sbtest1 SET c=? WHERE id=?", twin.C, INT)
  local delete = twin.prepare("DELETE FROM sbtest1 WHERE id=?", INT)
  local insert = twin.prepare("INSERT INTO sbtest1 (id, k, c, pad) VALUES (?, ?, ?, ?)", INT, INT, twin.C, twin.PAD)
  return function()
    update_k {uniform()}
    update_c {uniform()}
    -- The row deleted is inserted again, so the set of ids stays what the load made.
    local id = uniform()
    delete {id}
    insert {id, uniform()}
  end
end

return transaction
