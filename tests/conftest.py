from embedkafka.runtime.locks import check_lock_ranks

check_lock_ranks(True)
