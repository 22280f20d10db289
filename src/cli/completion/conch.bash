# bash completion for conch                                                -*- shell-script -*-

# The names of locks, as `conch list` knows them with the options that were typed so far. Names with other than plain characters are left out.
_conch_names() {
  local i connection=()
  for ((i = 2; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --url | --config | --user | --password-file | --key-prefix) connection+=("${COMP_WORDS[i]}" "${COMP_WORDS[i + 1]}") ;;
    esac
  done
  timeout 2 "${COMP_WORDS[0]}" list --names "${connection[@]}" 2>/dev/null | grep -E '^[A-Za-z0-9_./:@+,=-]+$'
}

_conch() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]:-} i
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W 'run status list watch unlock doctor bench help --help --version' -- "$cur"))
    return
  fi
  # Behind -- of run stands a command of its own.
  if [[ $command == run ]]; then
    for ((i = 2; i < COMP_CWORD; i++)); do
      if [[ ${COMP_WORDS[i]} == -- ]]; then
        if ((i + 1 == COMP_CWORD)); then COMPREPLY=($(compgen -c -- "$cur")); else COMPREPLY=($(compgen -f -- "$cur")); fi
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
    # A colon ends a word of bash's.
    if declare -F __ltrim_colon_completions >/dev/null; then __ltrim_colon_completions "$cur"; fi
  fi
}

complete -F _conch conch conch-lock
