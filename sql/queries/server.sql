-- Users of the server, and the log of changes.

-- name: list_principals
select name, role, token_sha is not null as has_token, changed_at from kb.principal order by name;

-- name: find_principal
select name, role, password_hash from kb.principal where name = %(name)s;

-- name: find_token
select name, role from kb.principal where token_sha = %(sha)s;

-- name: save_principal
insert into kb.principal (name, role, password_hash) values (%(name)s, %(role)s, %(password_hash)s)
on conflict (name) do update
set role = excluded.role, password_hash = excluded.password_hash, changed_at = clock_timestamp()
returning id;

-- name: save_token
update kb.principal set token_sha = %(sha)s, changed_at = clock_timestamp() where name = %(name)s;

-- name: delete_principal
delete from kb.principal where name = %(name)s;

-- name: read_principals_version
-- Differs whenever the table of users was changed.
select count(*) || ' ' || coalesce(max(id), 0) || ' ' || coalesce(max(changed_at)::text, '') from kb.principal;

-- name: save_audit
insert into kb.audit (principal, role, tool, target, arguments, before, after, reply, idempotency_key)
values (%(principal)s, %(role)s, %(tool)s, %(target)s, %(arguments)s, %(before)s, %(after)s, %(reply)s,
        %(idempotency_key)s)
returning id;

-- name: finish_audit
update kb.audit set reply = %(reply)s, after = coalesce(%(after)s, after) where id = %(id)s;

-- name: delete_audit
delete from kb.audit where id = %(id)s;

-- name: find_audit_key
select id, reply, arguments from kb.audit where principal = %(principal)s and tool = %(tool)s and idempotency_key = %(key)s;

-- name: list_audit
select id, made_at, principal, role, tool, target, arguments, before, after, undone_at, undone_by from kb.audit
where %(id)s::bigint is null or id = %(id)s
order by id desc
limit %(n)s;

-- name: find_later_change
-- The last change that stands and was made later to the same note of the server, to the edge of the same two, or
-- to the same memory.
select max(later.id)
from kb.audit a
join kb.audit later on later.id > a.id and later.undone_at is null
where a.id = %(id)s
    and (((later.after ->> 'is_ours')::boolean and later.after ->> 'path' = a.after ->> 'path')
        or (later.after ->> 'head', later.after ->> 'tail') in (
            (a.after ->> 'head', a.after ->> 'tail'), (a.after ->> 'tail', a.after ->> 'head'))
        or (later.tool = 'forget' and later.before ->> 'id' = a.after ->> 'id'));

-- name: undo_audit
update kb.audit set undone_at = clock_timestamp(), undone_by = %(by)s where id = %(id)s and undone_at is null;

-- name: make_reader_role
select kb.make_reader_role();

-- name: set_parameter
select set_config(%(name)s, %(value)s, false);

-- name: ping
select 1;

-- name: read_wiki_version
-- Differs when a stage ended, or somebody decided or changed something, since it was last read.
select concat_ws(' ', (select max(id) from kb.run), (select max(ended_at) from kb.run),
                 (select count(*) || ' ' || coalesce(max(decided_at)::text, '') from kb.decision),
                 (select count(*) || ' ' || coalesce(max(decided_at)::text, '') from kb.edge_decision));
