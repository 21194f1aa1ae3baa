-- A filed question stays when nothing answers it any more. asked: what its hits were limited to.
alter table kb.answer add column asked jsonb not null default '{}';

-- By meaning it is found by the question alone, which no new answer changes.
update kb.answer set text_sha = encode(sha256(convert_to(question, 'UTF8')), 'hex');

-- The mark at a question's end is no part of its key now; of two that become one the first keeps its own.
update kb.answer a set key = k.key
from (select distinct on (btrim(o.key, ' ?!.…')) o.id, btrim(o.key, ' ?!.…') as key
      from kb.answer o order by btrim(o.key, ' ?!.…'), o.id) k
where k.id = a.id and k.key not in ('', a.key) and not exists (select from kb.answer o where o.key = k.key);

-- Names like a misspelt one are found by their trigrams; a server without the extension suggests none.
do $$
begin
    create extension if not exists pg_trgm;
exception when feature_not_supported or undefined_file or insufficient_privilege then
    raise notice 'pg_trgm is not available: names are not suggested';
end
$$;
