// Seats are booked by two threads: the one that is free is looked for, and then taken.
public class LostSeats {
    static final int SEATS = 200;
    static int next;
    static final int[] booked = new int[SEATS + 2];

    static void book() {
        while (next < SEATS) {
            int seat = next;
            booked[seat]++;
            next = seat + 1;
        }
    }

    public static void main(String[] arguments) throws Exception {
        Thread[] agents = { new Thread(LostSeats::book), new Thread(LostSeats::book) };
        for (Thread agent : agents)
            agent.start();
        for (Thread agent : agents)
            agent.join();
        for (int seat : booked)
            if (seat > 1) {
                System.err.println("caught: a seat was booked twice");
                System.exit(1);
            }
    }
}
