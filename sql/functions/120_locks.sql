-- The hashes of the names that sessions of this database hold (see lock_name): who owns such a name lives.
create or replace view kb.held_name as
select (classid::bigint << 32) | objid::bigint as hash
from pg_locks
where locktype = 'advisory' and objsubid = 1 and granted
  and database = (select oid from pg_database where datname = current_database());
