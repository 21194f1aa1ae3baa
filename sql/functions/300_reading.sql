-- How cue rules read a sentence: stems with their voice, denials marked, the two ends as signs.

-- Text as rules read it.
create or replace function kb.folded(body text) returns text
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select translate(lower(body), 'ё’@', 'е'' ')
$$;

-- Words that deny.
create or replace function kb.negators(lang text) returns text
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select case lang when 'ru' then 'не|нет|без|вместо|никогда|ни|нельзя|вряд|едва'
                else 'not|no|never|without|instead|neither|nor|nobody|none|nothing|hardly|scarcely' end
$$;

-- A word's stem. English: _e is a participle, whose voice its neighbours tell; _g ends in -ing. Russian: _p is
-- reflexive or a passive participle.
create or replace function kb.word_read(lang text, word text) returns text
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select case
        when word !~ '^[[:alpha:]]'
          or word = any (string_to_array(kb.negators('ru') || '|' || kb.negators('en'), '|')) then word
        -- The case of "which" says who does it: _o is an object, _i another oblique form.
        when word in ('которую', 'коего', 'кого') then 'котор_o'
        when word in ('которого', 'которому', 'которым', 'котором', 'которой', 'которых', 'которыми') then 'котор_i'
        when word ~ '[а-я]' then
            coalesce((ts_lexize('russian_stem', regexp_replace(word, '([аяе]н)[аоы]$', '\1')))[1], word)
            || case when length(word) > 4
                         and word ~ '(ся|сь|[аяе]н[аоы]?|[кв]рыт[аоы]?|(анн|янн|енн|аем|яем|уем|имы?)(ый|ая|ое|ые|ого|ой|ых|ую|ым|ыми|ому|ом))$'
                    then '_p' else '' end
        else
            coalesce((ts_lexize('english_stem', word))[1], word)
            || case
                when word ~ '^.{2,}ed$|^(built|given|taken|found|made|written|drawn|driven|held|shown|taught|chosen|known|grown|understood)$'
                then '_e' when word ~ '^..+ing$' and word !~ 'thing$' then '_g' else '' end
    end
$$;

-- A text as rules match it: "X does not use Y" -> "x does not use_n y"; "Y is used by X" -> "y is use_p by x".
-- A denial marks the three words after it, so that no cue among them fires (the window of NegEx, Chapman et al.
-- 2001); a comma ends it.
create or replace function kb.reading(lang text, body text) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog
as $$
declare
    told text := body;
    be constant text := '(?:is|are|was|were|be|been|being)';
begin
    if lang = 'ru' then
        told := regexp_replace(told, '\mне (только|просто|случайно|зря|секрет|новость)\M|\mнет сомнени[йя]\M|\mбез (всякого )?сомнени[йя]\M|\mедва ли не\M', '', 'g');
        told := regexp_replace(
            told, '\mне (?=(?:намного |гораздо |сильно )?(?:хуже|лучше|больше|меньше|выше|ниже|[а-я]+ее)\M)', '', 'g');
        told := regexp_replace(told, '\mне ([^@.,;:]{1,40}), (а|но) (?=(?:[^ @.,;]+ )? *@2)', '', 'g');
    else
        told := regexp_replace(told, 'n''t\M', ' not', 'g');
        told := regexp_replace(told, '\mcannot\M', 'can not', 'g');
        told := regexp_replace(told, '\m(rather than|instead of|in place of|in lieu of)\M', 'instead', 'g');
        told := regexp_replace(
            told, '\m(not (only|just|merely|least|surprisingly|unlike|by accident)|no (doubt|wonder|secret|coincidence)|without (a |any )?(doubt|question)|none other than)\M',
            '', 'g');
        told := regexp_replace(
            told, '\m(no|not) (?=(?:any |much |far |significantly )?(?:better|worse|more|less|[a-z]{3,}er) than\M)', '', 'g');
        told := regexp_replace(told, '\m(?:does |do |did |is |are )?not ([^@.,;:]{1,40}),? but (?=(?:[^ @.,;]+ ){0,2} *@2)', '', 'g');
        told := regexp_replace(told, '\me\.\s?g\.', ' such as ', 'g');
    end if;
    select string_agg(kb.word_read(lang, t.word[1]), ' ' order by t.at) into told
    from regexp_matches(
        told, '@[12spgao]|[[:alpha:]][[:alnum:]''_-]*|[[:digit:]]+(?:[.,][[:digit:]]+)*|[^[:space:][:alnum:]]', 'g'
    ) with ordinality as t (word, at);
    if lang <> 'ru' then
        told := regexp_replace(told, '(\m' || be || '(?: (?:[[:alpha:]]+)){0,2} [[:alpha:]-]+)_e\M', '\1_p', 'g');
        told := regexp_replace(told, '_e((?: [^ @.,;]+){0,3} by\M)', '_p\1', 'g');
        told := regexp_replace(
            told, '_e( (?:in|by|for|on|as|to|from|with|into|within|inside|upon|against|of|through|via|at)\M)',
            '_p\1', 'g');
        told := replace(told, '_e', '');
    end if;
    for i in 0 .. 2 loop
        told := regexp_replace(
            told, '(\m(?:' || kb.negators(lang) || ')(?: [^ @.,;:]+_n){' || i || '} (?!(?:' || kb.negators(lang)
                  || ') )[[:alnum:]-]+(?:_[pg])?)(?= |$)', '\1_n', 'g');
    end loop;
    return coalesce(told, '');
end
$$;

-- What the first of two mentions can be. s: a subject. p: it follows a preposition. g: it hangs on the noun before
-- it («Внутренний цикл Titans», "the loop of Titans"). a: its form is an object's. o: it follows its verb.
create or replace function kb.case_of(lang text, before text, mention text) returns text
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select case
        when lang = 'ru' then case
            when before ~ '(^|[^[:alpha:]])(в|во|на|для|с|со|из|у|от|по|при|внутри|к|о|об|за|без|вместо|через|между|против|после|до|под|над)(\s+[а-я]+(ого|его|ой|ей|ых|их|ому|ему|ом|ем|ым|им|ыми|ими|ую|юю|ый|ий|ое|ее|ая|яя|ые|ие))*\s+[«"]?$'
                then 'p'
            when before ~ '[а-я]{3,}(ет|ит|ют|ят|ает|яет|ует)\s+[«"]?$' then 'o'
            when mention ~ '^[[:alpha:]-]+(ую|юю)\M' then 'a'
            when before ~ '[а-я]{3,}\s+[«"]?$'
             and before !~ '([а-я]{2}(ый|ий|ой|ая|яя|ое|ее|ые|ие|ую|юю|ого|его|ому|ему|ым|им|ых|их|ыми|ими|но|ко|ски)|\m(году|годах|года|также|однако|поэтому|затем|если|когда|чтобы|обычно|сегодня|теперь|впервые|есть|был[аои]?|это|как|или|что))\s+[«"]?$'
             and before !~ '\m(алгоритм|модель|протокол|метод|архитектура|компания|институт|корпус|набор|тест|система|библиотека|язык|формат|сеть|архиватор|оптимизатор|проект|группа|фреймворк|движок|механизм|подход|слой|блок|сервис|программа|база|лаборатория|университет|автор|исследователь|ученый|математик|физик|инженер|профессор)\s+[«"]?$'
                then 'g'
            else 's' end
        when before ~ '\m(of|inside of)(\s+(the|a|an|its|their|each|every|this))?(\s+[a-z-]+)?\s+$' then 'g'
        when before ~ '\m(in|for|on|by|with|from|to|inside|within|into|at|using|via|through|than|unlike|against|without)(\s+(the|a|an|its|their|each|every|this)(\s+[a-z-]+)?)?\s+$'
            then 'p'
        when before ~ '\m(uses?|used|using|employs?|applies|apply|adopts?|leverages?|requires?|needs?|replaces?|extends?|outperforms?|solves?|reduces?|improves?|introduces?|introduced|proposed|presents?|contains?|includes?|combines?|computes?|trains?|generali[sz]es?|modif(ies|y)|avoids?|keeps?|gives?|makes?|takes?|runs?|calls?|stores?|learns?|updates?)(\s+(the|a|an|its|their))?\s+$'
            then 'o'
        else 's' end
$$;

-- The language of what stands between two mentions, else around them: names and brackets may be in another one.
create or replace function kb.prose_lang(
    lang text, body text, first_start int, first_end int, last_start int, last_end int
) returns text
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select case when p.n_ru + p.n_en = 0 then lang when p.n_ru >= p.n_en then 'ru' else 'en' end
    from (
        select length(regexp_replace(t.prose, '[^а-яё]', '', 'g')) as n_ru,
               length(regexp_replace(t.prose, '[^a-z]', '', 'g')) as n_en
        from (
            select lower(regexp_replace(
                       case when b.between_text ~ '[[:alpha:]]{2}' then b.between_text
                            else substr(body, 1, first_start) || ' ' || substr(body, last_end + 1) end,
                       '\([^()]*\)', '', 'g')) as prose
            from (select substr(body, first_end + 1, greatest(0, last_start - first_end)) as between_text) b
        ) t
    ) p
$$;

-- A frame in plain words: without relative clauses between commas that name neither mention, and without what commas
-- set off right behind a subject; "X is a thing that uses Y" as "X uses Y"; who is followed by "that uses Y" or
-- «, который использует Y» is the subject of it, whatever its own case.
create or replace function kb.plain(lang text, frame text) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog
as $$
declare
    told text := frame;
begin
    told := regexp_replace(
        told, case lang when 'ru' then ' , (в |на |с |для )?котор[^ ]* [^,@]+ ,' else ' , (which|who|whose) [^,@]+ ,' end, '', 'g');
    told := regexp_replace(told, '(@s) , [^,@]{1,80} , (?!(and|or|и|или) )', '\1 ');
    if lang = 'ru' then
        told := regexp_replace(told, '@[pao]( , котор(?:_n)? )', '@s\1');
        return regexp_replace(
            told, '(@s) (?:— это|—|–|-|это|явля[^ ]*|представля[^ ]* соб)(?: [^ @.,;]+){1,6} , котор(?:_n)? (?!@2)', '\1 ');
    end if;
    told := regexp_replace(told, '@[pao]((?: ,)? (?:which|that|who) (?!(?:of|the|a|an|@2) ))', '@s\1');
    return regexp_replace(
        told, '(@s) (?:is|are|was|were) (?:a|an|the|one|another)(?: [^ @.,;]+){1,7} (?:that|which|who) (?!(?:the|a|an|it|we|they|its|@2) )',
        '\1 ');
end
$$;

-- A frame in which another verb of the same subject stands nearer to the second mention, with that verb alone: "@s has
-- no index and uses a @2" as "@s uses a @2", what was denied being the other verb. verbs: what may follow "and". What
-- "does not" governs goes on over an "and".
create or replace function kb.nearest_verb(lang text, frame text, verbs text) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog
as $$
declare
    part text[];
begin
    part := regexp_match(frame, case lang
        when 'ru' then '^(.*@s)( [^@]{1,90}?)(?: ,)? (и|но|зат|а|однак|поэт|но и|потому что)(?:_n)?(?: (?:она|он|оно|они))?(?:_n)?'
                       '((?: (?:такж|тоже|еще|уже|всегда|част|был[аои]?)(?:_n)?)* (?:' || verbs || ')(?:_[pgn])*(?: [^@]*)? ?@2.*)$'
        else '^(.*@s)( [^@]{1,90}?)(?: ,)? (and|but|yet|because|sinc|so|until|but also)(?:_n)?(?: (?:it|they))?(?:_n)?'
             '((?: (?:is|are|was|were|has|have|can|also|then|thus|still|often)(?:_n)?)* (?:' || verbs || ')(?:_[pgn])*(?: [^@]*)? ?@2.*)$'
        end);
    if part is null or part[2] ~ ' (who|which|that|whose|when|if|whether|котор[^ ]*|что|когда|если|как|хот) '
       or part[3] = 'and' and part[2] ~ ' (do|does|did|can|could|will|would|may|might|should|to) (not|never)' then
        return frame;
    end if;
    return part[1] || case when part[4] ~ ('\m(' || kb.negators(lang) || ')\M') then part[4]
                      else replace(part[4], '_n', '') end;
end
$$;

-- A sentence with its two mentions as signs: "@s is used in the @2 block". Only what is near them.
create or replace function kb.marked(
    lang text, body text, first_start int, first_end int, last_start int, last_end int
) returns text
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select regexp_replace(p.before, '^.*[.!?;:]\s', '') || ' @'
           || kb.case_of(lang, p.before, kb.folded(substr(body, first_start + 1, first_end - first_start)))
           || ' ' || kb.folded(substr(body, first_end + 1, greatest(0, last_start - first_end))) || ' @2 '
           || kb.folded(substr(body, last_end + 1, 60))
    from (select kb.folded(right(substr(body, 1, first_start), 120)) as before) p
$$;

-- Whether the sentence of a mention asks.
create or replace function kb.is_question(body text, mention_end int) returns boolean
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select substr(body, mention_end + 1) ~ '^[^.!?;:(«"]*\?'
$$;

-- A frame whose second mention does something to the first in a relative clause, told the plain way round: "the @s
-- that the @2 use" and «@s , котор_o использ @2» become "@s use @2", the first mention being the one that was
-- second. Null where there is no such clause. In Russian "which" must be no subject by its form: "который" can be.
create or replace function kb.turned(lang text, frame text) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog
as $$
declare
    part text[];
begin
    if lang = 'ru' then
        part := regexp_match(
            frame, '^(.*)@[spgao](?: ,)?(?: (в|во|на|для|с|со|из|от|по|при|через|к|о|об|без|под|за|у|после|до|поверх|внутр|вокруг|сред|прот))? котор(_o|_i)?'
                   || '(?:_n)?((?: [^ @.,;]+){0,4}) @2((?: [^ @.,;]+){0,3})');
        if part is not null and (part[2] is not null or part[3] is not null
                                 or part[4] = '' and part[5] <> '' and frame ~ ' котор @2 ') then
            return concat(part[1], '@s', part[4], part[5], ' ' || part[2], ' @2');
        end if;
        part := regexp_match(frame, '^(.*)@[spgao] , ([^ @.,;]+) котор_i((?: [^ @.,;]+){1,3}) @2');
        return case when part is not null then concat(part[1], '@s', part[3], ' ', part[2], ' @2') end;
    end if;
    part := regexp_match(
        frame, '^(.*)@[spgao](?: ,)?(?: (?:is|are|was|were))?(?: (?:on top|inside|out))?(?: (in|on|by|with|from|to|for|of|into|upon|against|through|without))? (?:that|which|whom|what)'
               || '(?:_n)?(?: (?:the|a|an|our|their|its|all|most|many|each|every|this)(?: [^ @.,;]+){0,2})? @2'
               || '((?: (?:is|are|was|were|be|been|has|have|had|can|could|may|might|will|would|does|do|did|not|never|no|longer|also'
               || '|often|now|still|then|current|wide|direct|alreadi|strong)(?:_n)?)* [^ @.,;]+(?: to [^ @.,;]+| (?:on|upon|from|with|by|against|into))?)');
    return case when part is not null then
        concat(part[1], '@s', case when part[3] ~ ' (is|are|was|were|be|been) ' then part[3] else replace(part[3], '_p', '') end,
               ' ' || part[2], ' @2') end;
end
$$;

-- Whether a sentence denies what links the two: a denial between them, or "instead of" before the first.
create or replace function kb.denied(lang text, frame text) returns boolean
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select substring(frame from '@[spgao] (.*)@2') ~ ('\m(' || kb.negators(lang) || ')\M')
        or frame ~ case lang when 'ru' then '\m(вместо|без) ([^ @.,;]+ )?@[spgao]'
                   else '\m(instead|without)( [^ @.,;]+)? @[spgao]' end
$$;

-- A rule's pattern as a regular expression over a frame. <uses employs> stands for these words in any form of
-- the same voice, ~3 for up to three words, =3 for up to three words that only modify.
create or replace function kb.cue_pattern(lang text, pattern text) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog
as $$
declare
    told text := pattern;
    words text;
    stems text;
begin
    loop
        words := substring(told from '<([^<>]+)>');
        exit when words is null;
        select string_agg(distinct kb.word_read_alone(lang, w), '|') into stems
        from regexp_split_to_table(words, '\s+') w where w <> '';
        told := replace(told, '<' || words || '>', '(?:' || stems || ')');
    end loop;
    told := regexp_replace(told, '~(\d+)', '(?: [^ @.;]+){0,\1}', 'g');
    return regexp_replace(
        told, '=(\d+)',
        '(?: (?!(?:' || case lang
            when 'ru' then 'в|во|на|для|с|со|из|у|от|по|при|и|или|что|чем|к|как|а'
            else 'of|for|in|on|to|with|from|by|via|that|which|and|or|as|at|than|is|are|was|were|but' end
        || ') )[^ @.,;:()]+){0,\1}', 'g');
end
$$;

-- A word of a pattern, whose voice no neighbour tells.
create or replace function kb.word_read_alone(lang text, word text) returns text
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select regexp_replace(kb.word_read(lang, kb.folded(word)), '_e$', '')
$$;

-- Whether what a cue matched goes over to another subject: a clause that opposes or explains, or a relative clause
-- that does not hang on the first mention nor on what it is said to be.
create or replace function kb.strays(lang text, said text) returns boolean
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select case lang
        when 'ru' then
            said ~ ' , (а|но|однак|поэт|потому|поскольк|тогда|хот) (?!такж)'
            or (said ~ '@[spgao] .*[^ ,] (, )?(в |на |с )?котор'
                and said !~ '@[spgao](?: \([^)@]*\))? (—|–|-|явля[^ ]*|представля[^ ]*|(, )?(в |на |с )?котор)')
        else
            said ~ ' , (but|while|wherea|because|sinc|although|so) '
            or (said ~ '@[spgao] .*[^ ,] (, )?(which|(?<!(show|shows|suggest|confirm|demonstr|report) )that|whose|who) (?!of )'
                and said !~ '@[spgao](?: \([^)@]*\))? (is|are|was|were|, an?|(, )?(which|that|whose|who)) ')
    end
$$;
