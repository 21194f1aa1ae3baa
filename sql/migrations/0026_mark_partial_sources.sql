-- Whether a part of a source was lost: --ocr reads those again.
alter table kb.source add column is_partial boolean not null default false;
update kb.source set is_partial = true
where (structure -> 'coverage' ->> 0)::int < (structure -> 'coverage' ->> 1)::int;
