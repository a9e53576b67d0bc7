// SPDX-License-Identifier: GPL-2.0
// Work SECONDS: sorts and formats; most of it is compiled by the JVM as it runs.
import java.util.Arrays;
import java.util.TreeMap;

public final class Work {
    static long state = 1;

    static int[] values() {
        int[] values = new int[500];
        for (int i = 0; i < values.length; i++) {
            state = state * 6364136223846793005L + 1442695040888963407L;
            values[i] = (int) (state >>> 33);
        }
        Arrays.sort(values);
        return values;
    }

    static int words(int[] values) {
        TreeMap<String, Integer> counts = new TreeMap<>();
        for (int value : values)
            counts.merge("word " + value % 100, 1, Integer::sum);
        return counts.size();
    }

    public static void main(String[] arguments) {
        long end = System.nanoTime() + (long) (Double.parseDouble(arguments[0]) * 1e9);
        long sum = 0;
        while (System.nanoTime() < end)
            sum += words(values());
        System.exit(sum == 0 ? 1 : 0);
    }
}
