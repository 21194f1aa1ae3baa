-- Rules that say of a sentence not what links its two ends but whether it holds. says: a type. denies: it does not
-- hold ("A fails to use B"). reverses: the clause that names both is said not to hold ("it is not true that A uses
-- B"), so that a denial in it cancels out. asks: nothing is said ("does A use B?").
alter table kb.edge_rule
    alter column type drop not null,
    add column effect text not null default 'says' check (effect in ('says', 'denies', 'reverses', 'asks')),
    add constraint edge_rule_type_says check ((effect = 'says') = (type is not null));

drop function if exists kb.rule_votes();
