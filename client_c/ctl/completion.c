/* completion.c - contactctl completion: scripts for bash, zsh and fish, of the tables of commands and options.
 *
 * Each script finds the command on the line, skipping options and their values, and offers what may follow: nouns, a
 * noun's verbs, the command's options, files where a file is asked for, or the words of a choice. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "client_c/ctl/table.h"

/* ---- what the tables say ---- */

static bool is_first_of_noun(int i) {
    for (int k = 0; k < i; k++)
        if (strcmp(ctl_commands[k].noun, ctl_commands[i].noun) == 0) return false;
    return true;
}

/* A choice is words of small letters between bars: "json|table". */
static bool is_choice(const char *value) {
    if (!value || !strchr(value, '|')) return false;
    for (; *value; value++)
        if (!islower((unsigned char)*value) && *value != '_' && *value != '|') return false;
    return true;
}

static bool is_file(const char *value) {
    return value && (strstr(value, "FILE") || strcmp(value, "A [B]") == 0);
}

/* The words of a choice, with blanks between them. */
static void put_words(const char *choice) {
    for (; *choice; choice++) putchar(*choice == '|' ? ' ' : *choice);
}

/* "scene set"; "status" */
static const char *path_of(const ctl_command *c, char *out, size_t size) {
    snprintf(out, size, "%s%s%s", c->noun, c->verb ? " " : "", c->verb ? c->verb : "");
    return out;
}

/* Within single quotes of a shell; escapes what `also` names with a backslash. */
static void put_quoted(const char *text, const char *quote, const char *also) {
    for (; *text; text++) {
        if (*text == '\'') {
            fputs(quote, stdout);
            continue;
        }
        if (strchr(also, *text)) putchar('\\');
        putchar(*text);
    }
}

/* ---- bash ---- */

static void put_option_names(ctl_set which, const char *between) {
    const char *separator = "";
    for (int o = 0; o < OPT_COUNT; o++) {
        if (!(which & CTL_BIT(o))) continue;
        printf("%s%s", separator, ctl_options[o].name);
        separator = between;
    }
}

static ctl_set options_with_value(void) {
    ctl_set out = 0;
    for (int o = 0; o < OPT_COUNT; o++)
        if (ctl_options[o].value) out |= CTL_BIT(o);
    return out;
}

/* Cases of the shell's `case`, by option, of what its value is. --output of snapshot is a file. */
static void put_bash_values(void) {
    for (int o = 0; o < OPT_COUNT; o++) {
        const char *value = ctl_options[o].value;
        if (!value || (!is_choice(value) && !is_file(value))) continue;
        printf("    %s%s) ", ctl_options[o].name, o == OPT_OUTPUT ? " | -o" : "");
        if (is_choice(value)) {
            if (o == OPT_OUTPUT) fputs("[[ $noun == snapshot ]] && files=1 || ", stdout);
            fputs("words='", stdout);
            put_words(value);
            puts("' ;;");
        } else {
            puts("files=1 ;;");
        }
    }
}

static void put_bash_commands(void) {
    char path[64];
    for (int i = 0; i < ctl_command_count; i++) {
        const ctl_command *c = &ctl_commands[i];
        printf("    '%s') options='", path_of(c, path, sizeof path));
        put_option_names(ctl_options_of(c), " ");
        putchar('\'');
        if (is_choice(c->args)) {
            fputs(" words='", stdout);
            put_words(c->args);
            putchar('\'');
        } else if (is_file(c->args)) {
            fputs(" files=1", stdout);
        }
        puts(" ;;");
    }
}

static void put_bash_nouns(void) {
    for (int i = 0; i < ctl_command_count; i++)
        if (is_first_of_noun(i)) printf("%s ", ctl_commands[i].noun);
}

/* "scene) verbs='list show' ;;" */
static void put_bash_verbs(void) {
    for (int i = 0; i < ctl_command_count; i++) {
        if (!ctl_commands[i].verb || !is_first_of_noun(i)) continue;
        printf("    %s) verbs='", ctl_commands[i].noun);
        for (int k = i; k < ctl_command_count; k++)
            if (strcmp(ctl_commands[k].noun, ctl_commands[i].noun) == 0) printf("%s ", ctl_commands[k].verb);
        puts("' ;;");
    }
}

static void put_bash(void) {
    puts("# bash completion of contactctl, made by contactctl completion bash\n"
         "_contactctl() {\n"
         "    local cur=${COMP_WORDS[COMP_CWORD]} word noun='' verb='' before='' i\n"
         "    local verbs='' options='' words='' files=''");
    fputs("    local takes=' -o ", stdout);
    put_option_names(options_with_value(), " ");
    puts(" '\n"
         "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "        word=${COMP_WORDS[i]} before=''\n"
         "        if [[ $word == [:=]* ]]; then # bash takes a:b and a=b apart\n"
         "            ((i++))\n"
         "        elif [[ $takes == *\" $word \"* ]]; then\n"
         "            before=$word\n"
         "            [[ ${COMP_WORDS[i + 1]} != = || $((i + 1)) -ge $COMP_CWORD ]] || ((i++))\n"
         "            ((i++))\n"
         "        elif [[ $word != -* && -z $noun ]]; then\n"
         "            noun=$word\n"
         "        elif [[ $word != -* && -z $verb ]]; then\n"
         "            verb=$word\n"
         "        fi\n"
         "    done\n"
         "    COMPREPLY=()\n"
         "    [[ $cur != = ]] || cur=''\n"
         "    if [[ -n $before && $i -gt $COMP_CWORD ]]; then # the value of an option\n"
         "    case $before in");
    put_bash_values();
    puts("    esac\n"
         "    else\n"
         "    case $noun in");
    put_bash_verbs();
    puts("    *) verb='' ;;\n"
         "    esac\n"
         "    case \"$noun${verb:+ $verb}\" in");
    put_bash_commands();
    fputs("    '') words='", stdout);
    put_bash_nouns();
    fputs("' options='", stdout);
    put_option_names(CTL_BIT(OPT_LAST_COMMON + 1) - 1, " ");
    puts("' ;;\n"
         "    *) words=$verbs ;;\n"
         "    esac\n"
         "    [[ $cur != -* ]] || words=$options files=''\n"
         "    fi\n"
         "    [[ -z $words ]] || mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
         "    [[ -z $files ]] || mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
         "    [[ -z $files ]] || compopt -o filenames 2>/dev/null\n"
         "}\n"
         "complete -F _contactctl contactctl");
}

/* ---- zsh ---- */

static const char zsh_quote[] = "'\\''";

/* 'word:text' of an array of _describe */
static void put_zsh_pair(const char *word, const char *text) {
    printf(" '%s:", word);
    put_quoted(text, zsh_quote, ":\\");
    putchar('\'');
}

static void put_zsh_options(ctl_set which) {
    for (int o = 0; o < OPT_COUNT; o++)
        if (which & CTL_BIT(o)) put_zsh_pair(ctl_options[o].name, ctl_options[o].text);
}

static void put_zsh_values(void) {
    for (int o = 0; o < OPT_COUNT; o++) {
        const char *value = ctl_options[o].value;
        if (!value) continue;
        printf("    %s%s) ", ctl_options[o].name, o == OPT_OUTPUT ? "|-o" : "");
        if (o == OPT_OUTPUT) fputs("if [[ $noun == snapshot ]]; then _files; return; fi; ", stdout);
        if (is_choice(value)) {
            fputs("compadd ", stdout);
            put_words(value);
        } else {
            fputs(is_file(value) ? "_files" : ":", stdout);
        }
        puts("; return ;;");
    }
}

static void put_zsh_commands(void) {
    char path[64];
    for (int i = 0; i < ctl_command_count; i++) {
        const ctl_command *c = &ctl_commands[i];
        printf("    '%s') options=(", path_of(c, path, sizeof path));
        put_zsh_options(ctl_options_of(c));
        putchar(')');
        if (is_choice(c->args)) {
            fputs("; words_of=(", stdout);
            put_words(c->args);
            putchar(')');
        } else if (is_file(c->args)) {
            fputs("; files=1", stdout);
        }
        puts(" ;;");
    }
}

static void put_zsh_verbs(void) {
    for (int i = 0; i < ctl_command_count; i++) {
        if (!ctl_commands[i].verb || !is_first_of_noun(i)) continue;
        printf("    %s) verbs=(", ctl_commands[i].noun);
        for (int k = i; k < ctl_command_count; k++)
            if (strcmp(ctl_commands[k].noun, ctl_commands[i].noun) == 0)
                put_zsh_pair(ctl_commands[k].verb, ctl_commands[k].text);
        puts(") ;;");
    }
}

static void put_zsh(void) {
    fputs("#compdef contactctl\n"
          "# zsh completion of contactctl, made by contactctl completion zsh\n"
          "_contactctl() {\n"
          "    local word noun='' verb='' before='' files='' i\n"
          "    local -a nouns verbs options words_of\n"
          "    local takes=' -o ",
          stdout);
    put_option_names(options_with_value(), " ");
    puts(" '\n"
         "    for ((i = 2; i < CURRENT; i++)); do\n"
         "        word=${words[i]} before=''\n"
         "        if [[ $takes == *\" $word \"* ]]; then\n"
         "            before=$word\n"
         "            ((i++))\n"
         "        elif [[ $word != -* && -z $noun ]]; then\n"
         "            noun=$word\n"
         "        elif [[ $word != -* && -z $verb ]]; then\n"
         "            verb=$word\n"
         "        fi\n"
         "    done\n"
         "    if [[ -n $before && $i -gt $CURRENT ]]; then\n"
         "    case $before in");
    put_zsh_values();
    puts("    esac\n"
         "    fi\n"
         "    case $noun in");
    put_zsh_verbs();
    puts("    *) verb='' ;;\n"
         "    esac\n"
         "    case \"$noun${verb:+ $verb}\" in");
    put_zsh_commands();
    fputs("    '') nouns=(", stdout);
    for (int i = 0; i < ctl_command_count; i++)
        if (is_first_of_noun(i))
            put_zsh_pair(ctl_commands[i].noun, ctl_commands[i].verb ? "commands of it follow" : ctl_commands[i].text);
    fputs("); options=(", stdout);
    put_zsh_options(CTL_BIT(OPT_LAST_COMMON + 1) - 1);
    puts(") ;;\n"
         "    *) nouns=(\"${verbs[@]}\") ;;\n"
         "    esac\n"
         "    if [[ ${words[CURRENT]} == -* ]]; then\n"
         "        _describe -o option options\n"
         "        return\n"
         "    fi\n"
         "    (( ${#nouns} == 0 )) || _describe command nouns\n"
         "    (( ${#words_of} == 0 )) || compadd -a words_of\n"
         "    [[ -z $files ]] || _files\n"
         "}\n"
         "_contactctl \"$@\"");
}

/* ---- fish ---- */

static const char fish_quote[] = "\\'";

/* -n '...': the command is this one. */
static void put_fish_condition(const ctl_command *c) {
    char path[64];
    printf(" -n '__contactctl_is %s'", path_of(c, path, sizeof path));
}

/* The command's words so far, without options and their values, which may look like words. */
static void put_fish_functions(void) {
    fputs("function __contactctl_words\n"
          "    set -l takes -o ",
          stdout);
    put_option_names(options_with_value(), " ");
    puts("\n"
         "    set -l skips 0\n"
         "    for word in (commandline -opc)[2..]\n"
         "        if test $skips = 1\n"
         "            set skips 0\n"
         "        else if contains -- $word $takes\n"
         "            set skips 1\n"
         "        else if not string match -q -- '-*' $word\n"
         "            echo $word\n"
         "        end\n"
         "    end\n"
         "end\n"
         "function __contactctl_is # begins with these words\n"
         "    set -l words (__contactctl_words)\n"
         "    set -l n (count $argv)\n"
         "    test (count $words) -ge $n; and test \"$words[1..$n]\" = \"$argv\"\n"
         "end\n"
         "function __contactctl_only # is these words\n"
         "    set -l words (__contactctl_words)\n"
         "    test \"$words\" = \"$argv\"\n"
         "end\n"
         "function __contactctl_outputs # of snapshot a file\n"
         "    if __contactctl_is snapshot\n"
         "        __fish_complete_path (commandline -ct)\n"
         "    else");
    printf("        string split '|' '%s'\n", ctl_options[OPT_OUTPUT].value);
    puts("    end\n"
         "end");
}

static void put_fish_text(const char *text) {
    fputs(" -d '", stdout);
    put_quoted(text, fish_quote, "\\");
    puts("'");
}

static void put_fish_option(int option, const ctl_command *of) {
    const ctl_option_row *row = &ctl_options[option];
    fputs("complete -c contactctl", stdout);
    if (of) put_fish_condition(of);
    printf(" -l %s", row->name + 2);
    if (option == OPT_OUTPUT) fputs(" -s o", stdout);
    if (option == OPT_HELP) fputs(" -s h", stdout);
    if (option == OPT_OUTPUT) {
        fputs(" -x -a '(__contactctl_outputs)'", stdout);
    } else if (is_choice(row->value)) {
        fputs(" -x -a '", stdout);
        put_words(row->value);
        putchar('\'');
    } else if (row->value) {
        fputs(is_file(row->value) ? " -r -F" : " -x", stdout);
    }
    put_fish_text(row->text);
}

/* Nouns where there is none yet, then the verbs of a noun. */
static void put_fish_words(void) {
    for (int i = 0; i < ctl_command_count; i++) {
        const ctl_command *c = &ctl_commands[i];
        if (is_first_of_noun(i)) {
            printf("complete -c contactctl -n __contactctl_only -a %s", c->noun);
            put_fish_text(c->verb ? "commands of it follow" : c->text);
        }
        if (!c->verb) continue;
        printf("complete -c contactctl -n '__contactctl_only %s' -a %s", c->noun, c->verb);
        put_fish_text(c->text);
    }
}

static void put_fish(void) {
    puts("# fish completion of contactctl, made by contactctl completion fish");
    put_fish_functions();
    puts("complete -c contactctl -f");
    put_fish_words();
    for (int o = 0; o <= OPT_LAST_COMMON; o++) put_fish_option(o, NULL);
    for (int i = 0; i < ctl_command_count; i++) {
        const ctl_command *c = &ctl_commands[i];
        for (int o = OPT_LAST_COMMON + 1; o < OPT_COUNT; o++)
            if (c->allowed & CTL_BIT(o)) put_fish_option(o, c);
        if (!is_file(c->args) && !is_choice(c->args)) continue;
        fputs("complete -c contactctl", stdout);
        put_fish_condition(c);
        if (is_file(c->args)) {
            puts(" -F");
            continue;
        }
        fputs(" -a '", stdout);
        put_words(c->args);
        puts("'");
    }
}

int ctl_completion(ctl *ctl) {
    static const struct {
        const char *shell;
        void (*put)(void);
    } shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(ctl->args[0], shells[i].shell) != 0) continue;
        shells[i].put();
        return EXIT_OK;
    }
    return ctl_mistake("there is no completion for %s, expected bash, zsh or fish", ctl->args[0]);
}
