-- Cues of the edge types. Patterns are matched against lower-case text in which ё is е; a cue must stand
-- within a few words of the second mention. Weights say how sure a cue is, and break ties.

create temporary table new_rule (like kb.edge_rule including defaults) on commit drop;

insert into new_rule (name, type, lang, scope, backward, weight, head_kinds, tail_kinds, pattern)
values
    -- is a
    ('en is a', 'is_a', 'en', 'between', false, 0.95, null, null,
     '^\s*(\([^()]*\)\s*)?(is|are|was|were|remains?) (also )?(a|an|one|another)( (special|simple|parallel|modern|new|simplified|learnable|small|large|fast|deep|linear|recurrent|hybrid))*\s*$'),
    ('en kind of', 'is_a', 'en', 'between', false, 0.95, null, null,
     '\m(kind|type|form|class|family|instance|example|special case|version|variety)s? of( (a|an|the))?( \S+){0,1}\s*$'),
    ('en such as', 'is_a', 'en', 'between', true, 0.8, null, null, '\m(such as|including|e\.g\.|for example|namely)( \S+){0,2}\s*$'),
    ('ru is a', 'is_a', 'ru', 'between', false, 0.95, null, null,
     '^\s*(\([^()]*\)\s*)?(—|–|-) (это )?( ?\S+(ый|ий|ой|ая|яя|ое|ее)){0,3}\s*$'),
    ('ru is', 'is_a', 'ru', 'between', false, 0.9, null, null,
     '\m(является|являются|представляет собой|считается)( \S+(ым|им|ой|ей|ыми))*\s*$'),
    ('ru kind of', 'is_a', 'ru', 'between', false, 0.95, null, null,
     '\m(вид(ом)?|тип(ом)?|разновидност(ь|ью)|частн(ый|ым) случа(й|ем)|форм(а|ой)|пример(ом)?|вариант(ом)? реализации)( \S+){0,1}\s*$'),
    ('ru such as', 'is_a', 'ru', 'between', true, 0.8, null, null,
     '\m(таки[ехм]+ как|например,?|в том числе|включая)( \S+){0,2}\s*$'),
    -- part of
    ('en part of', 'part_of', 'en', 'between', false, 0.95, null, null,
     '\m(parts?|components?|modules?|layers?|elements?|blocks?|building blocks?) (of|in|inside)( (a|an|the|every|each))?( \S+){0,1}\s*$'),
    ('en consists of', 'part_of', 'en', 'between', true, 0.95, null, null,
     '\m(consists? of|comprises?|contains?|includes?|is made (up )?of|is composed of)( \S+){0,7}\s*$'),
    ('en of', 'part_of', 'en', 'between', false, 0.45, null, null, '^\s*(of|in|inside) (the |a |an )?$'),
    ('ru part of', 'part_of', 'ru', 'between', false, 0.95, null, null,
     '\m(част(ь|ью|и)|компонент(ом|ы)?|модул(ь|ем)|элемент(ом)?|слой|слоем|блок(ом)?)( архитектуры| модели| системы)?\s*$'),
    ('ru enters', 'part_of', 'ru', 'between', false, 0.95, null, null, '\m(входит|входят) в( состав)?( \S+){0,1}\s*$'),
    ('ru consists of', 'part_of', 'ru', 'between', true, 0.95, null, null,
     '\m(состо(ит|ят) из|содерж(ит|ат)|включа(ет|ют)|объединя(ет|ют)|сочета(ет|ют))( \S+){0,7}\s*$'),
    ('ru genitive', 'part_of', 'ru', 'between', false, 0.3, null, null, '^\s+$'),
    -- based on
    ('en based on', 'based_on', 'en', 'between', false, 0.95, null, null,
     '\m(based on|builds? (up)?on|built (up)?on|derived from|inspired by|goes back to|derives from|grew out of|rests on|follows from)( \S+){0,6}\s*$'),
    ('en extends', 'based_on', 'en', 'between', false, 0.95, null, null,
     '\m(extends?|generali[sz]es?|modif(y|ies)|simplif(y|ies)|refines?|adapts?|improves on|variant of|variation of|successor (of|to)|descendant of|version of)( \S+){0,5}\s*$'),
    ('en basis of', 'based_on', 'en', 'between', true, 0.9, null, null,
     '\m(gave rise to|is the basis (of|for)|forms the basis of|inspired|is the foundation (of|for)|(is|are|was|were) (extended|generali[sz]ed|adapted|refined) (by|in|to|into))( \S+){0,4}\s*$'),
    ('ru based on', 'based_on', 'ru', 'between', false, 0.95, null, null,
     '\m(основан\w* на|на основе|на базе|построен\w* на|опира(ется|ются) на иде\w+|восход(ит|ят) к|выведен\w* из|вдохновл\w+)( \S+){0,5}\s*$'),
    ('ru extends', 'based_on', 'ru', 'between', false, 0.95, null, null,
     '\m(расширя(ет|ют)|обобща(ет|ют)|развива(ет|ют)( иде\w+)?|видоизменя(ет|ют)|упроща(ет|ют)|продолжа(ет|ют)|вариант(ом)?|модификаци(я|ей)|обобщени(е|ем)|наследник(ом)?)( \S+){0,3}\s*$'),
    ('ru basis of', 'based_on', 'ru', 'between', true, 0.9, null, null,
     '\m(л[её]г(ло|ла|ли)? в основу|леж(ит|ат) в основе|положен\w* в основу|служ(ит|ат) основой|дал\w* начало|(расширен|обобщ[её]н)\w*( в)?)( \S+){0,3}\s*$'),
    -- develops
    ('en develops', 'develops', 'en', 'between', false, 0.9, array['person', 'organisation'], null,
     '\m(developed|proposed|introduced|presented|created|released|invented|published|described|formulated|designed|proposes?|introduces?)( \S+){0,5}\s*$'),
    ('en work develops', 'develops', 'en', 'between', false, 0.7, null, null,
     '\m(introduces?|introduced|proposed|proposes)( \S+){0,2}\s*$'),
    ('en developed by', 'develops', 'en', 'between', true, 0.95, null, null,
     '\m(developed|proposed|introduced|presented|created|released|invented|published|described|formulated|designed)( \S+){0,4} by( \S+){0,4}\s*$'),
    ('ru develops', 'develops', 'ru', 'between', false, 0.9, array['person', 'organisation'], null,
     '\m(разработа\w+|предлож\w+|созда(л|ла|ли|ет)|представил\w*|выпустил\w*|опис(ал|ала|али)|сформулировал\w*|в[вы]\w*л\w* понятие|опубликовал\w*|изобрел\w*|ввел\w*)( \S+){0,4}\s*$'),
    ('ru developed by', 'develops', 'ru', 'between', true, 0.95, null, null,
     '\m((был[аои]? )?(разработан|предложен|создан|представлен|выпущен|описан|сформулирован|опубликован|введен)[аоы]?)( в \S+)?( \S+){0,3}\s*$'),
    -- uses
    ('en uses', 'uses', 'en', 'between', false, 0.85, null, null,
     '\m(uses?|using|employs?|employing|appl(y|ies)|applying|relies on|rely on|leverag(es?|ing)|incorporat(es?|ing)|adopts?|equipped with|combines?|computed (with|by)|trained (\S+ ){0,3}with|by means of|with the help of|calls?|runs?)( \S+){0,6}\s*$'),
    ('en used in', 'uses', 'en', 'between', true, 0.95, null, null,
     '\m(is|are|was|were|be|been|can be|also|widely|often)? ?(used|employed|applied|adopted|integrated|needed|called) (\S+ )?(in|by|for|inside|into|to|as)( \S+){0,5}\s*$'),
    ('en replaces', 'uses', 'en', 'between', false, 0.5, null, null, '\m(with|via|through)( (a|an|the|its))?( \S+){0,1}\s*$'),
    ('ru uses', 'uses', 'ru', 'between', false, 0.85, null, null,
     '\m(использу(ет|ют|я|ющ\w+)|с использованием|применя(ет|ют|я)|с помощью|при помощи|посредством|опира(ется|ются) на|задейству(ет|ют)|вычисля(ет|ют) \S+|обуча(ется|ются) \S* ?с)( \S+){0,5}\s*$'),
    ('ru used in', 'uses', 'ru', 'between', true, 0.95, null, null,
     '\m(использу(ется|ются)|применя(ется|ются|ют|емый|емая)|встроен\w*|служ(ит|ат)|нашл\w+ применение)( \S+)? (в|во|для|при|внутри|как)( \S+){0,4}\s*$'),
    -- depends on
    ('en depends on', 'depends_on', 'en', 'between', false, 0.9, null, null,
     '\m(depends? on|requires?|needs?|presupposes?|assumes?|is impossible without|hinges on)( \S+){0,5}\s*$'),
    ('en required by', 'depends_on', 'en', 'between', true, 0.9, null, null,
     '\m(is|are) (necessary|required|needed|essential|a prerequisite) (for|by)( \S+){0,4}\s*$|\m(underlies|underlie|enables?|makes? \S+ possible)( \S+){0,4}\s*$'),
    ('ru depends on', 'depends_on', 'ru', 'between', false, 0.9, null, null,
     '\m(завис(ит|ят) от|требу(ет|ют)|нужда(ется|ются) в|предполага(ет|ют)|невозможн\w+ без)( \S+){0,4}\s*$'),
    ('ru required by', 'depends_on', 'ru', 'between', true, 0.9, null, null,
     '\m(необходим\w* для|нужн\w* для|требу(ется|ются) для|предпосылк\w+|обеспечива(ет|ют))( \S+){0,4}\s*$'),
    -- addresses
    ('en addresses', 'addresses', 'en', 'between', false, 0.85, null, null,
     '\m(solves?|addresses|tackles?|mitigates?|alleviates?|reduces?|avoids?|prevents?|fights?|overcomes?|(designed|intended|meant|aimed) (for|at|to)|aims? (at|to)|helps? (with|to|against))( \S+){0,5}\s*$'),
    ('en for a task', 'addresses', 'en', 'between', false, 0.6, null, array['task'], '\m(for|on)( (a|an|the))?\s*$'),
    ('en addressed by', 'addresses', 'en', 'between', true, 0.85, null, null,
     '\m(is|are|can be) (solved|addressed|mitigated|reduced|avoided|alleviated|tackled|prevented) (\S+ )?(by|with|in|through)( \S+){0,4}\s*$'),
    ('ru addresses', 'addresses', 'ru', 'between', false, 0.85, null, null,
     '\m(реша(ет|ют)|предназначен\w* для|нацелен\w* на|устраня(ет|ют)|смягча(ет|ют)|снижа(ет|ют)|ослабля(ет|ют)|преодолева(ет|ют)|борются? с|борется с|предотвраща(ет|ют)|защища(ет|ют) от|помога(ет|ют) (от|против))( \S+){0,4}\s*$'),
    ('ru for a task', 'addresses', 'ru', 'between', false, 0.6, null, array['task'], '\m(для|от)\s*$'),
    ('ru addressed by', 'addresses', 'ru', 'between', true, 0.85, null, null,
     '\m(реша(ется|ются)|устраня(ется|ются)|смягча(ется|ются)|снижа(ется|ются)) (с помощью|за счет|в|при помощи)( \S+){0,4}\s*$'),
    -- evaluated on
    ('en evaluated on', 'evaluated_on', 'en', 'between', false, 0.95, null, null,
     '\m((evaluated|tested|benchmarked|validated|measured|assessed)( \S+){0,3} (on|with|by|in|against)|results? on|scores? (\S+ )?on|accuracy on)( \S+){0,8}\s*$'),
    ('en evaluates', 'evaluated_on', 'en', 'between', true, 0.9, null, null,
     '\m(measures?|evaluates?|tests?|probes?|benchmarks?)( \S+){0,3}\s*$'),
    ('ru evaluated on', 'evaluated_on', 'ru', 'between', false, 0.95, null, null,
     '\m(оценива(ется|ются|ли|ют)|протестирован\w*|провер(ен|ена|ено|ены|яли|яют|яется)|испытан\w*|измеря(ется|ют)|показал\w*|тестирова(ли|лась|лся))( \S+){0,3} (на|в|по|с помощью)( \S+){0,7}\s*$'),
    ('ru evaluates', 'evaluated_on', 'ru', 'between', true, 0.9, null, null,
     '\m(измеря(ет|ют)|проверя(ет|ют)|оценива(ет|ют)|тестиру(ет|ют))( \S+){0,3}\s*$'),
    ('en compared on', 'evaluated_on', 'en', 'between', false, 0.8, null, null,
     '\m(compared (with|to)|outperforms?|outperformed|surpass(es|ed)?|beats?)( \S+){1,6} (on|in)( the)?\s*$'),
    ('ru compared on', 'evaluated_on', 'ru', 'between', false, 0.8, null, null,
     '\m(сравнива\w+ с|сравнен\w* с|превосход(ит|ят|ил\w*)|уступа(ет|ют|ил\w*))( \S+){1,6} (на|по)\s*$'),
    -- compared with
    ('en compares', 'compares_with', 'en', 'between', false, 0.9, null, null,
     '\m(compared (with|to)|in comparison (with|to)|versus|vs\.?|outperforms?|outperformed|surpass(es|ed)?|beats?|exceeds?|matches|lags behind|(better|worse|faster|slower|cheaper|stronger|weaker|more \S+|less \S+|fewer \S+|higher|lower) than|than|unlike|in contrast to|as opposed to|as well as on|competes? with|comparable (to|with)|on par with|differs? from)( \S+){0,7}\s*$'),
    ('en unlike', 'compares_with', 'en', 'before', false, 0.9, null, null, '\m(unlike|compared (with|to)|in contrast to)( (a|an|the))?\s*$'),
    ('ru compares', 'compares_with', 'ru', 'between', false, 0.9, null, null,
     '\m(по сравнению с|в сравнении с|сравнива\w+ с|сравнен\w* с|в отличие от|превосход(ит|ят|ил\w*)|уступа(ет|ют|ил\w*)|обгоня(ет|ют)|чем|наравне с|сопоставим\w* с|отлича(ется|ются) от|противопоставл\w+)( \S+){0,6}\s*$'),
    ('ru unlike', 'compares_with', 'ru', 'before', false, 0.9, null, null, '\m(в отличие от|по сравнению с)\s*$');

-- What "A of B is a C" says is said of A, not of B; likewise before each verb. Of "compares A with B on C" the
-- last is what both are measured on; "addresses the growth of C" does not address C.
update new_rule set unless =
    case lang when 'en' then '\m(of|in|for|on|by|with|from|to|inside)( (the|a|an|its|their|each|every))?\s*\|'
              else '\m(в|во|на|для|с|со|из|у|от|по|при|внутри)\s*\|' end
where type in ('is_a', 'depends_on', 'addresses', 'evaluated_on', 'develops', 'based_on') and not backward
  and scope = 'between';
update new_rule set unless = coalesce(unless || '|', '') || case lang when 'en' then '\m(on|in)( the)?\s*$'
                                                                  else '\m(на|по|в)\s*$' end
where type = 'compares_with' and scope = 'between';
update new_rule set unless = coalesce(unless || '|', '') || '\mof( (the|a|an))?\s*$'
where name = 'en addresses';

insert into kb.edge_rule select * from new_rule
on conflict (name) do update
set type = excluded.type, lang = excluded.lang, scope = excluded.scope, backward = excluded.backward,
    weight = excluded.weight, head_kinds = excluded.head_kinds, tail_kinds = excluded.tail_kinds,
    pattern = excluded.pattern;

delete from kb.edge_rule r where not exists (select from new_rule n where n.name = r.name);
