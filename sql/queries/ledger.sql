-- Calls, their cost, and the cache of replies.

-- name: find_reply
select model, reply from kb.cache where key = %(key)s;

-- name: import_reply
insert into kb.cache (key, task, model, reply) values (%(key)s, %(task)s, %(model)s, %(reply)s)
on conflict (key) do nothing;

-- name: save_call
-- The reply, where there is one to keep, goes with its call in one statement: one round trip, one commit.
with kept as (
    insert into kb.cache (key, task, model, reply)
    select %(key)s, %(task)s, %(reply_model)s, %(reply)s::text where %(reply)s::text is not null
    on conflict (key) do update set model = excluded.model, reply = excluded.reply
)
insert into kb.call (task, provider, model, reply_model, item, status, reason, prompt_sha, input_tokens,
                     output_tokens, cached_tokens, thinking_tokens, usd, ms)
values (%(task)s, %(provider)s, %(model)s, %(reply_model)s, %(item)s, %(status)s, %(reason)s, %(prompt_sha)s,
        %(input_tokens)s, %(output_tokens)s, %(cached_tokens)s, %(thinking_tokens)s, %(usd)s, %(ms)s);

-- name: sum_today
select coalesce(sum(usd), 0)::float8 from kb.call where called_at >= date_trunc('day', now());

-- name: sum_calls
select case %(by)s when 'task' then task when 'model' then coalesce(nullif(reply_model, ''), model)
                   when 'source' then item else to_char(called_at, 'YYYY-MM-DD') end as name,
       count(*) filter (where status <> 'cached') as calls, count(*) filter (where status = 'cached') as cached,
       count(*) filter (where status in ('failed', 'truncated')) as failed,
       sum(input_tokens) as input_tokens, sum(output_tokens + thinking_tokens) as output_tokens,
       sum(usd)::float8 as usd, bool_or(usd is null and status = 'ok') as unpriced
from kb.call
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
