# bash completion for conch                                                -*- shell-script -*-

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
    case ${words[i]} in
      --url | --config | --user | --password-file | --key-prefix) connection+=("${words[i]}" "${words[i + 1]}") ;;
      --url=* | --config=* | --user=* | --password-file=* | --key-prefix=*) connection+=("${words[i]}") ;;
    esac
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
  local cur=${words[cword]} prev=${words[cword - 1]} command=${words[1]:-} i
  if [[ $cur == --*=* ]]; then
    prev=${cur%%=*}
    cur=${cur#*=}
  fi
  COMPREPLY=()
  if ((cword == 1)); then
    COMPREPLY=($(compgen -W 'run status list watch unlock doctor bench help --help --version' -- "$cur"))
    return
  fi
  # Behind -- of run stands a command of its own.
  if [[ $command == run ]]; then
    for ((i = 2; i < cword; i++)); do
      if [[ ${words[i]} == -- ]]; then
        if ((i + 1 == cword)); then COMPREPLY=($(compgen -c -- "$cur")); else COMPREPLY=($(compgen -f -- "$cur")); fi
        return
      fi
    done
  fi
  case $prev in
    --config | --password-file) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --kind) COMPREPLY=($(compgen -W 'mutex shared exclusive semaphore= striped=' -- "$cur")); return ;;
    --wait | -w | --lease | --max-hold | --grace | --every | --time | --sync-timeout) COMPREPLY=($(compgen -W '500ms 1s 30s 5m' -- "$cur")); return ;;
    --url | --user | --key-prefix | --fence | --conflict-exit-code | -E | --events-fd | --sync-replicas) return ;;
  esac
  local options='--url --config --user --password-file --key-prefix --json --verbose --help'
  case $command in
    run) options+=' --wait --no-wait --conflict-exit-code --kind --lease --fixed-lease --max-hold --grace --events-fd --no-kill-child --keep-connection --sync-replicas --sync-timeout --' ;;
    list) options+=' --names' ;;
    unlock) options+=' --fence --yes' ;;
    watch) options+=' --every' ;;
    doctor) options+=' --sync-replicas --sync-timeout' ;;
    bench) options+=' --time --sync-replicas --sync-timeout' ;;
    help) options='run status list watch unlock doctor bench' ;;
  esac
  COMPREPLY=($(compgen -W "$options" -- "$cur"))
  if [[ $cur != -* && $command =~ ^(run|status|unlock)$ ]]; then
    COMPREPLY+=($(compgen -W "$(_conch_names)" -- "$cur"))
  fi
}

complete -F _conch conch conch-lock
