-- The 11 directed types. uses and used_in are one fact with two readings: uses is stored.

insert into kb.edge_type (name, inverse, is_symmetric, ordinal, definition, label_en, label_ru, inverse_en, inverse_ru)
values
    ('is_a', 'has_instance', false, 1, 'A is a kind or an instance of B.',
     'is a', 'это вид', 'has kind', 'имеет вид'),
    ('part_of', 'has_part', false, 2, 'A is a structural component of B.',
     'part of', 'часть', 'has part', 'содержит'),
    ('based_on', 'basis_of', false, 3, 'A is derived from B by modification.',
     'based on', 'основано на', 'basis of', 'основа для'),
    ('develops', 'developed_by', false, 4, 'The agent or work A creates or advances B.',
     'develops', 'развивает', 'developed by', 'кем развито'),
    ('uses', 'used_in', false, 5, 'A employs B as a tool or component; B is replaceable.',
     'uses', 'использует', 'used in', 'используется в'),
    ('depends_on', 'required_by', false, 6, 'A cannot be defined, run or understood without B.',
     'depends on', 'зависит от', 'required by', 'нужно для'),
    ('addresses', 'addressed_by', false, 7, 'A is meant to solve or improve the task or problem B.',
     'addresses', 'решает', 'addressed by', 'решается с помощью'),
    ('evaluated_on', 'evaluates', false, 8, 'A is measured on or with B.',
     'evaluated on', 'проверено на', 'evaluates', 'проверяет'),
    ('compares_with', 'compares_with', true, 9, 'A and B are contrasted or ranked.',
     'compared with', 'сравнивается с', 'compared with', 'сравнивается с'),
    ('related_to', 'related_to', true, 10, 'A and B are linked, the way is not stated.',
     'related to', 'связано с', 'related to', 'связано с')
on conflict (name) do update
set inverse = excluded.inverse, is_symmetric = excluded.is_symmetric, ordinal = excluded.ordinal,
    definition = excluded.definition, label_en = excluded.label_en, label_ru = excluded.label_ru,
    inverse_en = excluded.inverse_en, inverse_ru = excluded.inverse_ru;
