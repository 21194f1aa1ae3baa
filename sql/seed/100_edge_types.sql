-- The 11 directed types. uses and used_in are one fact with two readings: uses is stored. Kinds, where given, are
-- those that the ends of an edge of the type have; an end whose kind is concept fits everywhere.

insert into kb.edge_type (name, inverse, is_symmetric, ordinal, code, head_kinds, tail_kinds, definition, label_en,
                          label_ru, inverse_en, inverse_ru)
values
    ('is_a', 'has_instance', false, 1, 'I', null, null, 'A is a kind or an instance of B.',
     'is a', 'это вид', 'has kind', 'имеет вид'),
    ('part_of', 'has_part', false, 2, 'P', array['method', 'model', 'data', 'task'],
     array['method', 'model', 'data', 'task', 'organisation'], 'A is a structural component of B.',
     'part of', 'часть', 'has part', 'содержит'),
    ('based_on', 'basis_of', false, 3, 'B', array['method', 'model', 'data'], array['method', 'model', 'data'],
     'A is derived from B by modification.',
     'based on', 'основано на', 'basis of', 'основа для'),
    ('develops', 'developed_by', false, 4, 'D', array['person', 'organisation'], array['method', 'model', 'data', 'task'],
     'The agent or work A creates or advances B.',
     'develops', 'развивает', 'developed by', 'кем развито'),
    ('uses', 'used_in', false, 5, 'U', array['method', 'model', 'person', 'organisation', 'task', 'data'],
     array['method', 'model', 'data', 'task'], 'A employs B as a tool or component; B is replaceable.',
     'uses', 'использует', 'used in', 'используется в'),
    ('depends_on', 'required_by', false, 6, 'Q', null, array['method', 'model', 'data', 'task'],
     'A cannot be defined, run or understood without B.',
     'depends on', 'зависит от', 'required by', 'нужно для'),
    ('addresses', 'addressed_by', false, 7, 'S', array['method', 'model', 'person', 'organisation', 'data'],
     array['task'], 'A is meant to solve or improve the task or problem B.',
     'addresses', 'решает', 'addressed by', 'решается с помощью'),
    ('evaluated_on', 'evaluates', false, 8, 'E', array['method', 'model', 'task'], array['data', 'task'],
     'A is measured on or with B.',
     'evaluated on', 'проверено на', 'evaluates', 'проверяет'),
    ('compares_with', 'compares_with', true, 9, 'C', null, null, 'A and B are contrasted or ranked.',
     'compared with', 'сравнивается с', 'compared with', 'сравнивается с'),
    ('related_to', 'related_to', true, 10, 'R', null, null, 'A and B are linked, the way is not stated.',
     'related to', 'связано с', 'related to', 'связано с')
on conflict (name) do update
set inverse = excluded.inverse, is_symmetric = excluded.is_symmetric, ordinal = excluded.ordinal, code = excluded.code,
    head_kinds = excluded.head_kinds, tail_kinds = excluded.tail_kinds, definition = excluded.definition,
    label_en = excluded.label_en, label_ru = excluded.label_ru, inverse_en = excluded.inverse_en,
    inverse_ru = excluded.inverse_ru;

-- How sure the rules must be for their word to be final where a model could be asked.
insert into kb.setting (name, value) values ('sure_confidence', '0.8') on conflict (name) do nothing;
