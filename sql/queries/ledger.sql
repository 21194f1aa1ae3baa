-- Calls, their cost, and the cache of replies.

-- name: find_reply
select model, reply from kb.cache where key = %(key)s;

-- name: import_reply
insert into kb.cache (key, task, model, reply) values (%(key)s, %(task)s, %(model)s, %(reply)s)
on conflict (key) do nothing;

-- name: save_call
insert into kb.call (owner, task, provider, model, reply_model, item, status, prompt_sha, input_tokens, usd)
values (%(owner)s, %(task)s, %(provider)s, %(model)s, %(reply_model)s, %(item)s, %(status)s, %(prompt_sha)s,
        %(input_tokens)s, %(usd)s)
returning id;

-- name: end_call
-- The reply, where there is one to keep, goes with its call in one statement: one round trip, one commit.
with kept as (
    insert into kb.cache (key, task, model, reply)
    select %(key)s, %(task)s, %(reply_model)s, %(reply)s::text where %(reply)s::text is not null
    on conflict (key) do update set model = excluded.model, reply = excluded.reply
)
update kb.call
set status = %(status)s, reason = %(reason)s, reply_model = %(reply_model)s, input_tokens = %(input_tokens)s,
    output_tokens = %(output_tokens)s, cached_tokens = %(cached_tokens)s, thinking_tokens = %(thinking_tokens)s,
    usd = %(usd)s, ms = %(ms)s
where id = %(id)s;

-- name: forget_call
delete from kb.call where id = %(id)s;

-- name: list_dead_calls
-- Calls of processes that were killed before the reply.
select id, model, input_tokens from kb.call
where status = 'open' and hashtextextended('kbwiki:' || owner, 0) not in (select hash from kb.held_name)
for update skip locked;

-- name: lose_call
update kb.call set status = 'lost', usd = %(usd)s, reason = 'the run ended before the reply; the prompt is counted'
where id = %(id)s and status = 'open';

-- name: lock_budget
select pg_advisory_xact_lock(hashtextextended('kbwiki:budget', 0));

-- name: sum_today
select coalesce(sum(usd) filter (where status <> 'open'), 0)::float8 as spent,
       coalesce(sum(usd) filter (where status = 'open'), 0)::float8 as held
from kb.call where called_at >= date_trunc('day', now());

-- name: sum_calls
select case %(by)s when 'task' then task when 'model' then coalesce(nullif(reply_model, ''), model)
                   when 'source' then item else to_char(called_at, 'YYYY-MM-DD') end as name,
       count(*) filter (where status <> 'cached') as calls, count(*) filter (where status = 'cached') as cached,
       count(*) filter (where status in ('failed', 'truncated', 'lost')) as failed,
       sum(input_tokens) as input_tokens, sum(output_tokens + thinking_tokens) as output_tokens,
       sum(usd)::float8 as usd, bool_or(usd is null and status = 'ok') as unpriced
from kb.call
where status <> 'open'
group by 1
order by 1;

-- name: list_cache
select key, task, model, reply from kb.cache order by key;

-- name: read_ratios
select task, avg(input_tokens)::float8 as input_tokens,
       avg(output_tokens + thinking_tokens)::float8 as output_tokens,
       (sum(output_tokens + thinking_tokens)::float8 / greatest(sum(input_tokens), 1)) as output_per_input
from kb.call where status = 'ok' group by task;

-- name: list_read
select s.id, s.sha256, u.uri, e.title, s.authors, s.year, s.dated, s.text, s.structure, e.fingerprint
from kb.source s
join lateral (select min(uri collate "C") as uri from kb.source_uri where source_id = s.id) u on true
join kb.extraction e on e.source_id = s.id
order by u.uri
limit %(limit)s;

-- name: count_concepts_in
select count(distinct concept_id) from kb.mention where source_id = any (%(sources)s::bigint[]);

-- name: last_concept
select coalesce(max(id), 0) from kb.concept;
