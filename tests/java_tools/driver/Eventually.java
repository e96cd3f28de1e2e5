import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;

/** Facts that a broker may learn a moment after another one has accepted them. */
final class Eventually {
    private static final long PATIENCE_MS = 20_000;

    private Eventually() {}

    /** The first answer that is not empty; the last one when patience is over. */
    static Object present(Callable<? extends Map<?, ?>> question) throws Exception {
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (true) {
            try {
                Map<?, ?> answer = question.call();
                if (!answer.isEmpty() || System.currentTimeMillis() > deadline) {
                    return answer;
                }
            } catch (ExecutionException failure) {
                if (System.currentTimeMillis() > deadline) {
                    return failure;
                }
            }
        }
    }
}
