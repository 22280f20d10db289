# bash completion for conch                                                -*- shell-script -*-

# _conch_options_of COMMAND
# _conch_values_of OPTION: sets `values` to what is offered as its argument, `/` for files. Fails if it has none.
# begin generated: commands and options (scripts/cli_texts --write)
_conch_commands='run status why list watch unlock doctor bench'
_conch_commands_with_locks='run status why unlock'
_conch_connection_options='--url --config --user --password-file --key-prefix'
_conch_options_of() {
  case $1 in
    run) echo '--url --config --user --password-file --key-prefix --json --verbose --help --wait --no-wait --conflict-exit-code --kind --lease --lock-delay --at-least --label --note --fixed-lease --max-hold --grace --warn --events-fd --no-kill-child --keep-connection --sync-replicas --sync-timeout --' ;;
    status) echo '--url --config --user --password-file --key-prefix --json --verbose --help' ;;
    why) echo '--url --config --user --password-file --key-prefix --json --verbose --help' ;;
    list) echo '--url --config --user --password-file --key-prefix --json --verbose --help --names' ;;
    watch) echo '--url --config --user --password-file --key-prefix --json --verbose --help --every' ;;
    unlock) echo '--url --config --user --password-file --key-prefix --json --verbose --help --fence --yes' ;;
    doctor) echo '--url --config --user --password-file --key-prefix --json --verbose --help --sync-replicas --sync-timeout' ;;
    bench) echo '--url --config --user --password-file --key-prefix --json --verbose --help --time --sync-replicas --sync-timeout' ;;
  esac
}
_conch_values_of() {
  case $1 in
    --wait | -w) values='500ms 1s 30s 5m' ;;
    --conflict-exit-code | -E) values='' ;;
    --kind) values='mutex shared exclusive semaphore= striped=' ;;
    --lease) values='1s 30s 5m' ;;
    --lock-delay) values='10s 1m' ;;
    --at-least) values='1m 5m 1h' ;;
    --label) values='' ;;
    --note) values='' ;;
    --max-hold) values='30s 5m 1h' ;;
    --grace) values='500ms 1s 5s' ;;
    --warn) values='USR1 USR2 HUP' ;;
    --events-fd) values='' ;;
    --every) values='200ms 1s 5s' ;;
    --fence) values='' ;;
    --time) values='1s 10s' ;;
    --sync-replicas) values='1 2' ;;
    --sync-timeout) values='200ms 1s' ;;
    --url) values='' ;;
    --config) values='/' ;;
    --user) values='' ;;
    --password-file) values='/' ;;
    --key-prefix) values='' ;;
    *) return 1 ;;
  esac
}
# end generated

# Sets `words` to the words up to the cursor as conch gets them, and `cword` to the index of the last. Bash itself also splits at ':' and '=', as in
# --url redis://HOST:PORT and --kind=shared.
_conch_words() {
  words=("${COMP_WORDS[@]:0:COMP_CWORD+1}")
  if [[ -n ${COMP_LINE:-} ]]; then
    local line=${COMP_LINE:0:COMP_POINT}
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=('')
  fi
  cword=$((${#words[@]} - 1))
}

# The names of locks, as `conch list` knows them with the options that were typed so far. Names with other than plain characters are left out.
_conch_names() {
  local i connection=()
  for ((i = 2; i < cword; i++)); do
    [[ " $_conch_connection_options " == *" ${words[i]%%=*} "* ]] || continue
    connection+=("${words[i]}")
    [[ ${words[i]} == *=* ]] || connection+=("${words[i + 1]}")
  done
  timeout 2 "${words[0]}" list --names "${connection[@]}" 2>/dev/null | grep -E '^[A-Za-z0-9_./:@+,=-]+$'
}

_conch() {
  local words cword
  _conch_words
  _conch_replies
  # Readline replaces only what stands behind the last ':' or '='.
  local last=${words[cword]} before
  before=${last%"${last##*[:=]}"}
  if [[ -n $before && ${COMP_WORDBREAKS:-} == *"${before: -1}"* ]]; then COMPREPLY=("${COMPREPLY[@]#"$before"}"); fi
}

_conch_replies() {
  local cur=${words[cword]} prev=${words[cword - 1]} command=${words[1]:-} i values
  if [[ $cur == --*=* ]]; then
    prev=${cur%%=*}
    cur=${cur#*=}
  fi
  COMPREPLY=()
  if ((cword == 1)); then
    COMPREPLY=($(compgen -W "$_conch_commands help --help --version" -- "$cur"))
    return
  fi
  local options
  options=$(_conch_options_of "$command")
  # After -- of run comes a command of its own.
  if [[ " $options " == *' -- '* ]]; then
    for ((i = 2; i < cword; i++)); do
      if [[ ${words[i]} == -- ]]; then
        if ((i + 1 == cword)); then COMPREPLY=($(compgen -c -- "$cur")); else COMPREPLY=($(compgen -f -- "$cur")); fi
        return
      fi
    done
  fi
  if _conch_values_of "$prev"; then
    if [[ $values == / ]]; then COMPREPLY=($(compgen -f -- "$cur")); else COMPREPLY=($(compgen -W "$values" -- "$cur")); fi
    return
  fi
  if [[ $command == help ]]; then
    COMPREPLY=($(compgen -W "$_conch_commands" -- "$cur"))
    return
  fi
  COMPREPLY=($(compgen -W "$options" -- "$cur"))
  if [[ $cur != -* && " $_conch_commands_with_locks " == *" $command "* ]]; then
    COMPREPLY+=($(compgen -W "$(_conch_names)" -- "$cur"))
  fi
}

complete -F _conch conch conch-lock
